"""A run's folder: what is in it, and how it is written.

config.yaml       the resolved configuration, itself runnable: `rlcore train RUN/config.yaml`
versions.json     versions of packages, and the identity of every component
metrics.jsonl     a row per step; fields under `measured` come from clocks
rollouts.jsonl    a row per sampled completion
evaluations.jsonl a row per evaluation
heldout.jsonl     the held-out problems, as given to the model
checkpoints/      step_N, each whole or not there
failed/           steps whose update was not finite, for `rlcore replay`
model/            at the end: a plain Hugging Face folder
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.component import Component, identity
from rlcore.config.notation import to_yaml
from rlcore.errors import CheckpointError, ConfigError, nearest

PACKAGES = ("rlcore", "torch", "transformers", "numpy", "pluggy", "hydra-core")


def new_folder(root: str, name: str | None, *, project: str) -> Path:
    """Make and return the folder of a new run. Raises ConfigError if a run of that name is already there."""
    base = Path(root).expanduser().resolve()
    if name is not None:
        if not name or name in (".", "..") or any(c in name for c in "/\\\0"):
            raise ConfigError(f"run.name={name!r} must be a plain folder name")
        folder = base / name
        if (folder / "config.yaml").exists():
            raise ConfigError(
                f"run {str(folder)!r} is already there: go on with resume={folder}, or choose another run.name"
            )
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for i in range(1000):
        folder = base / (f"{project}-{stamp}" + (f"-{i}" if i else ""))
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise ConfigError(f"no free name for a run under {base}")


def existing_run(path: str) -> Path:
    """Return the folder of an existing run. Raises CheckpointError naming the nearest one."""
    folder = Path(path).expanduser().resolve()
    if not (folder / "config.yaml").is_file():
        beside = (
            [p.name for p in folder.parent.iterdir() if (p / "config.yaml").is_file()] if folder.parent.is_dir() else []
        )
        raise CheckpointError(
            f"{path!r} is no run: there is no {folder / 'config.yaml'}.{nearest(folder.name, beside)}"
        )
    return folder


def write_config(path: Path, tree: Mapping[str, Any]) -> None:
    """Write a resolved configuration, whole or not at all."""
    aside = path.with_suffix(".tmp")
    aside.write_text(to_yaml(plain(tree)), encoding="utf-8")
    aside.replace(path)


def write_versions(path: Path, components: Mapping[str, Component]) -> None:
    """Write which packages ran, and where each component came from."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    identities = {name: dataclasses.asdict(identity(component)) for name, component in components.items()}
    tree = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "packages": found,
        "components": identities,
    }
    path.write_text(json.dumps(tree, indent=1), encoding="utf-8")


def plain(value: Any) -> Any:
    """Return a value as YAML's own types: tuples become lists, paths become text."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
