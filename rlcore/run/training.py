"""The training loop: a step, what is said and kept of it, and what comes between two steps."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.errors import RunError
from rlcore.execute.local import Outcome
from rlcore.metrics import Metrics
from rlcore.protocols import RewardManager
from rlcore.registry import registry
from rlcore.run.loading import Loaded
from rlcore.run.replay import save_batch
from rlcore.run.report import completions, rollout_rows, step_metrics
from rlcore.run.signals import Stopping
from rlcore.run.state import keep_failed
from rlcore.tracking import JsonLines, Trackers

if TYPE_CHECKING:
    from rlcore.run import Run


@dataclass
class Training:
    """The steps of one run, into its folder and its trackers."""

    run: Run
    loaded: Loaded
    folder: Path
    trackers: Trackers

    def __post_init__(self) -> None:
        self._rollouts = JsonLines(self.folder / "rollouts.jsonl")

    def steps(self, stopping: Stopping) -> None:
        """Run step after step, to the last one or until a signal. Raises RunError where a bound is passed."""
        run, total, every = self.run, self.loaded.total_steps, self.run.settings.save.every
        with run.progress.phase("training", total) as phase:
            phase.done = run.step
            while run.step < total and not stopping.asked:
                values = self._step()
                run.history.add(run.step, values)
                self.trackers.log(run.step, values)
                registry().notify("step_finished", step=run.step, metrics=values)
                score, speed = values.get("score", float("nan")), values["speed/tokens_per_second"]
                unscored = f"  unscored {count:.0f}" if (count := values.get("rows/unscored", 0)) else ""
                phase.advance(note=f"score {score:.3f}{unscored}  {speed:.0f} tokens/s")
                self._stop_if_never_finite()
                if every and run.step % every == 0:
                    run.save()

    def _step(self) -> dict[str, float]:
        """Run one step and keep its rows; return its metrics, with those of an evaluation that is due after it."""
        run, loaded, settings = self.run, self.loaded, self.run.settings
        begin, failed_before = time.perf_counter(), failures(loaded.manager)
        outcome = loaded.executor.run_step(run.step, progress=run.step / loaded.total_steps)
        seconds = time.perf_counter() - begin
        texts = completions(outcome.batch, loaded.decode)
        parts = loaded.grader.parts or ()
        metrics = step_metrics(outcome, texts, settings.reflection_phrases, parts)
        if failed := failures(loaded.manager) - failed_before:
            metrics.put("rows/failed", float(failed), kind="sum")
        _add_times(metrics, outcome, seconds)
        self._rollouts.append(run.step + 1, *rollout_rows(outcome.batch, texts, loaded.show, parts))
        if settings.save.rollouts:
            save_batch(self.folder / "rollouts", run.step, outcome.batch)
        if outcome.starved:
            run.progress.say(f"step {run.step + 1}: {outcome.starved}")
        if not outcome.finite:
            kept = keep_failed(self.folder / "failed", run.step, loaded, outcome)
            run.progress.warn(
                f"step {run.step + 1}: an update was not finite and was skipped; "
                f"kept for `rlcore replay {kept} --check`"
            )
        run.step += 1
        values = metrics.values()
        if self._is_evaluated():
            values |= {f"eval/{name}": value for name, value in run.evaluated().items()}
        return values

    def _is_evaluated(self) -> bool:
        """Tell whether an evaluation is due; the one after the last step belongs to the end of the run."""
        run, every = self.run, self.run.settings.eval.every
        due = bool(every) and run.step % every == 0 and run.step < self.loaded.total_steps
        return due and bool(self.loaded.heldout)

    def _stop_if_never_finite(self) -> None:
        skipped = self.loaded.executor.skipped
        if skipped >= self.run.settings.limits.max_skipped:
            raise RunError(
                f"{skipped} updates in a row were not finite (limits.max_skipped); see {self.folder}/failed, "
                f"and `rlcore replay {self.folder}/failed/step_{self.run.step - 1} --check`"
            )


def failures(manager: RewardManager) -> int:
    """Return how many rows' rewards have failed so far."""
    return int(manager.failed)


def _add_times(metrics: Metrics, outcome: Outcome, seconds: float) -> None:
    metrics.put("seconds/step", seconds)
    for name, spent in outcome.seconds.items():
        metrics.put(f"seconds/{name}", spent)
    sampling = outcome.seconds.get("rollout", 0.0)
    if sampling and outcome.drawn_tokens:
        metrics.put("speed/rollout_tokens_per_second", outcome.drawn_tokens / sampling)
    metrics.put("speed/tokens_per_second", outcome.batch.tokens_total / seconds)
