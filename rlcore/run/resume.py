"""Where a resumed run goes on: its newest whole checkpoint, or its first step if it never did one."""

from __future__ import annotations

from pathlib import Path

from rlcore import checkpoint
from rlcore.errors import CheckpointError

STEP_FILES = ("metrics.jsonl", "rollouts.jsonl")
"""What has rows as soon as a step was done, each written before the checkpoint of that step."""


def going_on_from(run: Path) -> Path | None:
    """Return the newest whole checkpoint of a run; None where no step was ever done, so that it begins anew.

    Raises CheckpointError, with what is wrong with each checkpoint, where steps were done and none can be read: a run
    that began anew there would write over them.
    """
    folder = run / "checkpoints"
    found = checkpoint.newest(folder)
    if found is not None:
        return found
    broken = [f"{path.name}: {checkpoint.fault(path)}" for path in checkpoint.candidates(folder)]
    done = [name for name in STEP_FILES if _has_rows(run / name)]
    if not broken and not done:
        return None
    rows = f"; rows of its steps are in {' and '.join(done)}" if done else ""
    raise CheckpointError(
        f"resume={run}: no checkpoint of {folder} is whole ({'; '.join(broken) or 'there is none'}){rows}. "
        f"Nothing was touched: put a whole checkpoint back, or begin another run with "
        f"`rlcore train {run}/config.yaml run.name=another`"
    )


def _has_rows(path: Path) -> bool:
    """Tell whether a file has a whole row: a line torn by a kill is no step that was done."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.readline().endswith(b"\n")
