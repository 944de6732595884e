"""What a run leaves to be taken up again: checkpoints, and the steps whose update was not finite."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore import checkpoint
from rlcore.errors import CheckpointError
from rlcore.execute.local import Outcome
from rlcore.run.history import History
from rlcore.run.loading import Loaded
from rlcore.run.resume import fixed_part

if TYPE_CHECKING:
    from rlcore.run import Run


def state_of(run: Run, loaded: Loaded) -> dict[str, Any]:
    """Return all that the rest of a run depends on, and its history."""
    return {
        "trainers": {role: t.state_dict() for role, t in loaded.trainers.items() if not t.frozen},
        "executor": loaded.executor.state_dict(),
        "order": loaded.drawing.order.state_dict(),
        "run": {
            "step": run.step,
            "groups": loaded.drawing.groups,
            "pending": [list(pair) for pair in loaded.drawing.pending.items()],
            "before": run.before,
            "parts": list(loaded.grader.parts or ()),
        },
        "history": [dict(row) for row in run.history],
        # A person may edit the folder's config.yaml; what these weights were trained with stands here.
        "config": fixed_part(run.experiment.resolved),
    }


def take_up(run: Run, loaded: Loaded, state: Mapping[str, Any], path: Path) -> None:
    """Put a run where a saved one was. Raises CheckpointError naming `path` for weights that this run does not have."""
    for role, saved in state["trainers"].items():
        if role not in loaded.trainers:
            raise CheckpointError(f"{path} holds weights of role {role!r}, which this run does not have")
        loaded.trainers[role].load_state_dict(saved)
    loaded.executor.load_state_dict(state["executor"])
    loaded.drawing.order.load_state_dict(state["order"])
    loaded.drawing.groups = int(state["run"]["groups"])
    loaded.drawing.pending = {int(group): int(index) for group, index in state["run"].get("pending", ())}
    loaded.grader.parts = tuple(state["run"]["parts"]) or None
    run.step = int(state["run"]["step"])
    run.before = dict(state["run"]["before"])
    run.history = History(state["history"])


def keep_failed(folder: Path, step: int, loaded: Loaded, outcome: Outcome) -> Path:
    """Keep a step for `rlcore replay`: its rows, the values without dimensions, and the weights; return where."""
    state = {
        "batch": {name: outcome.batch.stored(name) for name in outcome.batch.names},
        "scalars": dict(loaded.executor.scalars),
        "trainers": {role: t.state_dict() for role, t in loaded.trainers.items()},
    }
    return checkpoint.save(folder, step, state)
