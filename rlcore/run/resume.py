"""Where a resumed run goes on: its newest whole checkpoint, or its first step if it never did one,
and what it may change.
"""

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
"""What has rows as soon as a step was done, each written before the checkpoint of that step."""


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
    """Return what of a resolved configuration a resumed run may not change, in the types of YAML and JSON.

    Its files are absolute: a relative and an absolute path of one file are no difference.
    """
    return {str(key): plain(value) for key, value in anchored(resolved).items() if key not in RESUMABLE}


def check_resumed(run: Path, at: Path | None, now: Mapping[str, Any]) -> None:
    """Raise ConfigError if a resumed run was given another configuration, naming the first difference.

    `at` is the checkpoint that it goes on from, which knows what it was trained with; the run's own file, which anyone
    may have edited, counts only where there is none.
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
    """Return a run's resolved configuration; a folder that somebody has made of a config.yaml alone has only that."""
    file = run / "resolved.yaml"
    return read_file(file if file.is_file() else run / "config.yaml")


def _has_rows(path: Path) -> bool:
    """Tell whether a file has a whole row: a line torn by a kill is no step that was done."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.readline().endswith(b"\n")
