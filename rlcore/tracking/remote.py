"""Trackers that need a package: SwanLab, Weights & Biases, TensorBoard. It is imported when the tracker starts."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from rlcore.extras import require
from rlcore.protocols import Tracker


class _PackageTracker(Tracker):
    """A tracker by an optional package: `start` opens a run of the package, and `log` sends metrics to it."""

    package: str
    _run: Any = None

    def check(self) -> None:
        """Raise ConfigError if the package is missing."""
        self._import_package()

    def _import_package(self) -> Any:
        return require(self.package, extra="trackers", purpose=f"tracker {self.package!r}")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Send one step's metrics."""
        self._run.log(dict(metrics), step=step)

    def finish(self) -> None:
        """Close the run."""
        self._run.finish()


class SwanLab(_PackageTracker):
    """A SwanLab run. `offline` needs no account and no network; `swanlab sync FOLDER` sends it later."""

    package = "swanlab"

    def __init__(self, *, mode: Literal["offline", "local", "online", "disabled"] = "offline") -> None:
        self.mode = mode

    def start(self, *, run: str, project: str, config: Mapping[str, Any], folder: Path) -> None:
        """Open the run; its files go to `swanlab/` in the run's folder.

        Raises:
            ConfigError: if the package is missing.
        """
        swanlab = self._import_package()
        log_dir = Path(folder) / "swanlab"
        log_dir.mkdir(parents=True, exist_ok=True)
        # Otherwise SwanLab captures the terminal's output, from a thread that may outlive the run.
        settings = swanlab.Settings(terminal={"proxy_type": "none"})
        self._run = swanlab.init(
            project=project, name=run, config=dict(config), mode=self.mode, log_dir=str(log_dir), settings=settings
        )


class WandB(_PackageTracker):
    """A Weights & Biases run. `offline` needs no account and no network; `wandb sync FOLDER` sends it later."""

    package = "wandb"

    def __init__(
        self, *, mode: Literal["offline", "online", "disabled"] = "offline", entity: str | None = None
    ) -> None:
        self.mode = mode
        self.entity = entity

    def start(self, *, run: str, project: str, config: Mapping[str, Any], folder: Path) -> None:
        """Open the run; its files go to `wandb/` in the run's folder.

        Raises:
            ConfigError: if the package is missing.
        """
        wandb = self._import_package()
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=project, name=run, entity=self.entity, config=dict(config), mode=self.mode, dir=str(folder)
        )


class TensorBoard(_PackageTracker):
    """Event files in `tensorboard/` of the run's folder, for `tensorboard --logdir`."""

    package = "tensorboard"

    def start(self, *, run: str, project: str, config: Mapping[str, Any], folder: Path) -> None:
        """Open the event file.

        Raises:
            ConfigError: if the package is missing.
        """
        self._import_package()
        writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        self._run = writer(log_dir=str(Path(folder) / "tensorboard"))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write one step's metrics."""
        for name, value in metrics.items():
            self._run.add_scalar(name, value, step)

    def finish(self) -> None:
        """Close the event file."""
        self._run.close()
