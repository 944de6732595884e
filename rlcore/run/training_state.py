"""The training state, the summary of a run, and saved steps whose update was not finite."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rlcore import checkpoint
from rlcore.checkpoint import save_trainer
from rlcore.errors import counted
from rlcore.execute.local import StepResult
from rlcore.protocols import Trainer
from rlcore.run.history import History
from rlcore.run.progress import Progress

FEW = 10
"""Steps at the end of a run in which no group's scores differed, before a warning says so."""


@dataclass
class TrainingState:
    """All that the training loop itself changes from step to step.

    Attributes:
        step: how many steps are done.
        history: the metrics of each of them.
        before: the evaluation of the weights that the run began with; empty where there was none.
    """

    step: int = 0
    history: History = field(default_factory=History)
    before: dict[str, float] = field(default_factory=dict)

    def state_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"step": self.step, "history": [dict(row) for row in self.history], "before": self.before}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.step = int(saved["step"])
        self.history = History(saved["history"])
        self.before = dict(saved["before"])


def write_summary(
    folder: Path, state: TrainingState, after: Mapping[str, float], progress: Progress, **ended: Any
) -> dict[str, Any]:
    """Write `summary.json` and return it: success and score before and after, counts, and how the run `ended`."""
    summary = {
        "success_before": state.before.get("success"),
        "success_after": after.get("success"),
        "success_se_before": state.before.get("success_se"),
        "success_se_after": after.get("success_se"),
        "score_before": state.before.get("score"),
        "score_after": after.get("score"),
        **(
            {f"loss_{w}": v.get("loss") for w, v in (("before", state.before), ("after", after))}
            if "loss" in after
            else {}
        ),
        "steps": state.step,
        "updates_applied": _updates_applied(state, progress),
        "unscored": _unscored(state, progress),
        "steps_without_signal": _steps_without_signal(folder, state, progress),
        **ended,
        "run": str(folder),
    }
    (folder / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
    return summary


def _updates_applied(state: TrainingState, progress: Progress) -> int:
    """Return how many updates changed weights; warn where none did: such a run ends with what it began with."""
    applied, skipped, empty = (state.history.total(f"updates/{name}") for name in ("applied", "skipped", "empty"))
    if state.step and not applied:
        progress.warn(
            f"no update was applied in {counted(state.step, 'step')} ({skipped} were not finite, {empty} had nothing "
            f"to train on): the weights are those that the run began with"
        )
    return applied


def _unscored(state: TrainingState, progress: Progress) -> int:
    """Return how many rows had no score; say so where there were any: nothing was learnt from them."""
    unscored, failed = (
        round(sum(row.get(f"rows/{name}", 0.0) for row in state.history)) for name in ("unscored", "failed")
    )
    if unscored:
        progress.say(f"{counted(unscored, 'row')} unscored ({failed} failed)")
    return unscored


def _steps_without_signal(folder: Path, state: TrainingState, progress: Progress) -> int:
    """Return in how many steps the samples of every group had equal scores; warn where all or the last ten were so."""
    without = [_is_without_signal(row) for row in state.history]
    count = sum(1 for _ in itertools.takewhile(bool, reversed(without)))
    if without and count >= min(FEW, len(without)):
        which = "every step" if count == len(without) else f"each of the last {counted(count, 'step')}"
        score = state.history[-1]["score"]
        progress.warn(
            f"in {which} all samples of a group had the same score (mean score of the last step: {score:.4g}), so that "
            f"comparing them teaches nothing. Read them with `rlcore rollouts {folder}`. Problems that are solved "
            f"sometimes, a finer reward, or a larger algorithm.group_size make scores differ"
        )
    return sum(without)


def _is_without_signal(metrics: Mapping[str, float]) -> bool:
    """Tell whether the scores of a step differ in no group; groups of one sample are compared with each other."""
    if metrics.get("groups/without_variance") != 1:
        return False
    return not metrics["groups/singleton"] or math.isclose(metrics["score"], metrics["score/max"], abs_tol=1e-6)


def save_failed_step(folder: Path, step: int, trainers: Mapping[str, Trainer], policy: str, result: StepResult) -> Path:
    """Keep a policy's step for `rlcore replay`: rows, values without dimensions, and weights; return where."""
    saved = {
        "policy": policy,
        "batch": {name: result.batch.stored(name) for name in result.batch.names},
        "scalars": dict(result.scalars),
    }
    writers = {role: partial(save_trainer, t) for role, t in trainers.items()}
    return checkpoint.save(folder, step, saved, writers=writers)
