"""A run's folder: what is in it, and how it is written.

config.yaml       what the user chose and all settings; `rlcore train RUN/config.yaml` runs it again
resolved.yaml     every component with every option
versions.json     versions of packages, and the identity of every component
metrics.jsonl     a row per step; fields under `measured` come from clocks
rollouts.jsonl    a row per sampled completion
evaluations.jsonl a row per evaluation
heldout.jsonl     the held-out problems, as given to the model
checkpoints/      step_N, each whole or not there
failed/           steps whose update was not finite, for `rlcore replay`
run.lock          while a process writes here: its id
model/            at the end: a plain Hugging Face folder
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.component import Component, identity
from rlcore.config.yaml_files import to_yaml
from rlcore.errors import CheckpointError, ConfigError, nearest

PACKAGES = ("rlcore", "torch", "transformers", "numpy", "pluggy", "hydra-core")


def new_folder(root: str, name: str | None, *, project: str) -> Path:
    """Make and return the folder of a new run. Raises ConfigError if it cannot be made or holds a run already."""
    base = check_place(root, name)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    names = [name] if name is not None else [f"{project}-{stamp}" + (f"-{i}" if i else "") for i in range(1000)]
    for candidate in names:
        try:
            (base / candidate).mkdir(parents=True, exist_ok=name is not None)
        except FileExistsError:
            continue
        except OSError as error:
            raise ConfigError(f"the run's folder {str(base / candidate)!r} cannot be made: {error.strerror}") from error
        return base / candidate
    raise ConfigError(f"no free name for a run under {base}")


def check_place(root: str, name: str | None) -> Path:
    """Return the folder of runs, without making it. Raises ConfigError if a new run could not be kept there."""
    try:
        base = Path(root).expanduser().resolve()
        folder = base if name is None else base / name
        if name is not None and (folder / "config.yaml").exists():
            raise ConfigError(
                f"run {str(folder)!r} is already there: go on with resume={folder}, or choose another run.name"
            )
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(folder)  # raises where `lexists` is silent: a name too long, a folder that may not be entered
        existing = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
        if not existing.is_dir():
            raise ConfigError(f"run.folder={root!r}: {str(existing)!r} is a file, where a run needs a folder")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise ConfigError(f"run.folder={root!r}: {str(existing)!r} is a folder that may not be written to")
    except ConfigError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # too long, no access, no such user, NUL
        raise ConfigError(f"run.folder={root!r} cannot be used: {error}") from error
    return base


def remove_if_empty(folder: Path) -> bool:
    """Remove the folder of a run that could not begin, if it is empty, and return whether it was."""
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def existing_run(path: str) -> Path:
    """Return the folder of an existing run. Raises CheckpointError naming the nearest one."""
    try:
        folder = Path(path).expanduser().resolve()
        if (folder / "config.yaml").is_file():
            return folder
        neighbours = (
            [p.name for p in folder.parent.iterdir() if (p / "config.yaml").is_file()] if folder.parent.is_dir() else []
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{path!r} is no run: {error}") from error
    raise CheckpointError(
        f"{path!r} is no run: there is no {folder / 'config.yaml'}.{nearest(folder.name, neighbours)}"
    )


def write_config(path: Path, tree: Mapping[str, Any]) -> None:
    """Write a resolved configuration, whole or not at all."""
    aside = path.with_suffix(".tmp")
    aside.write_text(to_yaml(plain(tree)), encoding="utf-8")
    aside.replace(path)


def write_versions(path: Path, components: Mapping[str, Component]) -> None:
    """Write the versions of packages, and the distribution, version and hash of each component."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    identities = {name: dataclasses.asdict(identity(component)) for name, component in components.items()}
    tree = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "packages": versions,
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
