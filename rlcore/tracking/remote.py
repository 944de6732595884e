"""Trackers of others: SwanLab, Weights & Biases, TensorBoard. Each package is imported when its tracker starts."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from rlcore.extras import require
from rlcore.protocols import Tracker


class SwanLab(Tracker):
    """A SwanLab run. `offline` needs no account and no network; `swanlab sync FOLDER` sends it later."""

    def __init__(self, *, mode: Literal["offline", "local", "online", "disabled"] = "offline") -> None:
        self.mode = mode
        self._run: Any = None

    def check(self) -> None:
        """Raise ConfigError if the package is missing."""
        _package("swanlab")

    def start(self, *, run: str, project: str, config: Mapping[str, Any], folder: Path) -> None:
        """Open the run; its files go to `swanlab/` in the run's folder.

        Raises:
            ConfigError: if the package is missing.
        """
        swanlab = _package("swanlab")
        log_dir = Path(folder) / "swanlab"
        log_dir.mkdir(parents=True, exist_ok=True)
        # SwanLab would put itself between the process and its terminal, from a thread that may outlive the run.
        settings = swanlab.Settings(terminal={"proxy_type": "none"})
        self._run = swanlab.init(
            project=project, name=run, config=dict(config), mode=self.mode, log_dir=str(log_dir), settings=settings
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Send one step's metrics."""
        self._run.log(dict(metrics), step=step)

    def finish(self) -> None:
        """Close the run."""
        self._run.finish()


class WandB(Tracker):
    """A Weights & Biases run. `offline` needs no account and no network; `wandb sync FOLDER` sends it later."""

    def __init__(
        self, *, mode: Literal["offline", "online", "disabled"] = "offline", entity: str | None = None
    ) -> None:
        self.mode = mode
        self.entity = entity
        self._run: Any = None

    def check(self) -> None:
        """Raise ConfigError if the package is missing."""
        _package("wandb")

    def start(self, *, run: str, project: str, config: Mapping[str, Any], folder: Path) -> None:
        """Open the run; its files go to `wandb/` in the run's folder.

        Raises:
            ConfigError: if the package is missing.
        """
        wandb = _package("wandb")
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=project, name=run, entity=self.entity, config=dict(config), mode=self.mode, dir=str(folder)
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Send one step's metrics."""
        self._run.log(dict(metrics), step=step)

    def finish(self) -> None:
        """Close the run."""
        self._run.finish()


class TensorBoard(Tracker):
    """Event files in `tensorboard/` of the run's folder, for `tensorboard --logdir`."""

    def __init__(self) -> None:
        self._writer: Any = None

    def check(self) -> None:
        """Raise ConfigError if the package is missing."""
        _package("tensorboard")

    def start(self, *, run: str, project: str, config: Mapping[str, Any], folder: Path) -> None:
        """Open the event file.

        Raises:
            ConfigError: if the package is missing.
        """
        _package("tensorboard")
        writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        self._writer = writer(log_dir=str(Path(folder) / "tensorboard"))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write one step's metrics."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def finish(self) -> None:
        """Close the event file."""
        self._writer.close()


def _package(name: str) -> Any:
    return require(name, extra="trackers", purpose=f"tracker {name!r}")
