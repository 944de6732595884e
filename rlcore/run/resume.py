"""Resuming a run: from which checkpoint, and which settings may differ from those of the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore import checkpoint
from rlcore.config.paths import anchored
from rlcore.config.yaml_files import read_file
from rlcore.errors import CheckpointError, ConfigError
from rlcore.run.run_folder import plain
from rlcore.settings import RESUMABLE

STEP_FILES = ("metrics.jsonl", "rollouts.jsonl")
"""Files that have rows once a step is done; they are written before the checkpoint of that step."""


def checkpoint_to_resume(run: Path) -> Path | None:
    """Return the newest whole checkpoint of a run; None where no step was ever done, so that it begins anew.

    Raises CheckpointError, with what is wrong with each checkpoint, where steps were done and none can be read: a run
    that began anew there would write over them.
    """
    folder = run / "checkpoints"
    newest_whole = checkpoint.newest(folder)
    if newest_whole is not None:
        return newest_whole
    broken = [f"{path.name}: {checkpoint.fault(path)}" for path in checkpoint.candidates(folder)]
    written = [name for name in STEP_FILES if _has_rows(run / name)]
    if not broken and not written:
        return None
    rows = f"; rows of its steps are in {' and '.join(written)}" if written else ""
    raise CheckpointError(
        f"resume={run}: no checkpoint of {folder} is whole ({'; '.join(broken) or 'there is none'}){rows}. "
        f"Nothing was touched: put a whole checkpoint back, or begin another run with "
        f"`rlcore train {run}/config.yaml run.name=another`"
    )


def fixed_settings(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a resolved configuration that a resumed run may not change, in the types of YAML and JSON.

    Paths are absolute, so that a relative and an absolute path of one file are equal.
    """
    return {str(key): plain(value) for key, value in anchored(resolved).items() if key not in RESUMABLE}


def check_resumed(run: Path, at: Path | None, now: Mapping[str, Any]) -> None:
    """Raise ConfigError if a resumed run was given another configuration, naming the first difference.

    `at` is the checkpoint that it goes on from, which holds the configuration of its training. Only where there is none
    the run's own file counts, which a person may have edited.
    """
    kept = checkpoint.load_entry(at, "config") if at is not None else None
    saved = fixed_settings(kept if kept is not None else _resolved_of(run))
    new = fixed_settings(now)
    for key in dict.fromkeys((*saved, *new)):
        if saved.get(key) != new.get(key):
            allowed = ", ".join(name for name in RESUMABLE if name != "resume")
            raise ConfigError(
                f"resume: {key} was {saved.get(key)!r} and is now {new.get(key)!r}; a resumed run may change "
                f"{allowed}. To begin a new run from its weights use start_from="
            )


def _resolved_of(run: Path) -> dict[str, Any]:
    """Return a run's resolved configuration, or its config.yaml where that is all there is."""
    file = run / "resolved.yaml"
    return read_file(file if file.is_file() else run / "config.yaml")


def _has_rows(path: Path) -> bool:
    """Return whether a file has a complete row; a killed process may have left a part of one."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.readline().endswith(b"\n")
