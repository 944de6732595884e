"""The training loop. A step is: prompts -> rollout -> reward -> advantage -> update -> sync.

What each of these does is a node of the algorithm's graph, and the executor runs them (`rlcore/execute/local.py`):
prompts, rollout, reward and filter until there are enough groups, then old log-probabilities, advantage, update and
sync on all groups together. Here is what surrounds a step: its metrics and rows, evaluations, checkpoints, bounds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore import checkpoint
from rlcore.errors import RunError, counted
from rlcore.execute.local import StepResult
from rlcore.graph import Graph
from rlcore.metrics import Metrics, full_name
from rlcore.registry import registry
from rlcore.run.evaluate import shown, write_heldout
from rlcore.run.inputs import draws
from rlcore.run.loading import LoadedRun, Policy
from rlcore.run.progress import Phase, Progress
from rlcore.run.replay import rollouts_folder, save_batch
from rlcore.run.signals import StopSignals
from rlcore.run.step_report import completions, rollout_rows, step_metrics
from rlcore.run.training_state import TrainingState, save_failed_step
from rlcore.settings import Settings
from rlcore.tracking import JsonLines, Trackers


@dataclass
class TrainingLoop:
    """The steps of one run, into its folder and its trackers.

    `state` is all that the loop itself changes; `config` is what of the run's configuration a checkpoint keeps.
    """

    state: TrainingState
    loaded: LoadedRun
    settings: Settings
    config: Mapping[str, Any]
    folder: Path
    trackers: Trackers
    progress: Progress

    def __post_init__(self) -> None:
        self._rollouts = JsonLines(self.folder / "rollouts.jsonl")
        self._evaluations = JsonLines(self.folder / "evaluations.jsonl")

    def train(self, stopping: StopSignals) -> dict[str, float]:
        """Train to the last step, or until a signal; return the evaluation after it, empty where there is none.

        Raises RunError where a bound of the run is passed.
        """
        self.evaluate_before()
        total = self.loaded.total_steps
        if self.state.step >= total:
            self.progress.say(
                f"this run has done all of its {counted(self.state.step, 'step')}; to train on, type: "
                f"rlcore train resume={self.folder} steps={2 * self.state.step}"
            )
        with self.progress.phase("training", total) as phase:
            phase.done = self.state.step
            while self.state.step < total and not stopping.asked:
                metrics = self.step()
                self.report(metrics, phase)
                self.stop_if_never_finite()
                if self.settings.save.every and self.state.step % self.settings.save.every == 0:
                    self.save()
        self.save()
        if stopping.asked and self.state.step < total:
            self.progress.say(
                f"stopped after step {self.state.step} of {total}; go on with: rlcore train resume={self.folder}"
            )
        after = self.evaluate() if self.loaded.heldout and not stopping.asked else {}
        for name in self.loaded.policies:
            self.loaded.trainers[name or "trainer"].save_model(self.folder / (f"model_{name}" if name else "model"))
        return after

    def step(self) -> dict[str, float]:
        """Run one step and keep its rows; return its metrics, with those of an evaluation that is due after it.

        Metrics of a policy after the first begin with its name: `POLICY/score`.
        """
        step = self.state.step
        values: dict[str, float] = {}
        for name, policy in self.loaded.policies.items():
            begin, failed_before = time.perf_counter(), policy.failed
            # Prompts -> rollout -> reward -> advantage -> update -> sync.
            result = policy.executor.run_step(step, progress=step / self.loaded.total_steps)
            seconds = time.perf_counter() - begin
            metrics = self.keep(name, policy, result)
            if failed := policy.failed - failed_before:
                metrics.put("rows/failed", float(failed), kind="sum")
            _add_times(metrics, result, policy.executor.graph, seconds)
            values |= {f"{name}/{key}" if name else key: value for key, value in metrics.values().items()}
        self.state.step += 1
        if self.evaluation_is_due():
            values |= {f"eval/{name}": value for name, value in self.evaluate().items()}
        return values

    def keep(self, name: str, policy: Policy, result: StepResult) -> Metrics:
        """Write a policy's rows of a step, and all of it where an update was not finite; return its metrics."""
        step, batch, components = self.state.step, result.batch, policy.components
        drawn = draws(policy.executor.graph)
        # Rows of the data set stand in its file.
        texts = completions(batch, self.loaded.decode) if drawn else []
        whose = {"policy": name} if name else {}
        if drawn:
            rows = rollout_rows(batch, texts, self.loaded.show, components)
            self._rollouts.append(step + 1, *({**row, **whose} for row in rows))
        if self.settings.save.rollouts and drawn:
            save_batch(rollouts_folder(self.folder, name), step, batch)
        which = f"step {step + 1}{f' of policy {name}' if name else ''}"
        if result.underfilled:
            self.progress.say(f"{which}: {result.underfilled}")
        if not result.finite:
            kept = save_failed_step(
                self.folder / (f"failed_{name}" if name else "failed"), step, self.loaded.trainers, name, result
            )
            self.progress.warn(
                f"{which}: an update was not finite and was skipped; kept for `rlcore replay {kept} --check`"
            )
        updates = [n.name for n in policy.executor.graph.nodes if n.view == "update"]
        return step_metrics(result, texts, self.settings.reflection_phrases, components, updates)

    def report(self, metrics: Mapping[str, float], phase: Phase) -> None:
        """Give a step's metrics to the history, the trackers, the plugins and the line of progress."""
        self.state.history.add(self.state.step, metrics)
        self.trackers.log(self.state.step, metrics)
        registry().notify("step_finished", step=self.state.step, metrics=metrics)
        speed = metrics["speed/tokens_per_second"]
        unscored = f"  unscored {count:.0f}" if (count := metrics.get("rows/unscored", 0)) else ""
        learnt = "score" if "score" in metrics else "loss"
        value = metrics.get(full_name(metrics, learnt) or "", float("nan"))
        phase.advance(note=f"{learnt} {value:.3f}{unscored}  {speed:.0f} tokens/s")

    def stop_if_never_finite(self) -> None:
        """Raise RunError where as many updates in a row as `limits.max_skipped` were not finite."""
        skipped = max(policy.executor.skipped for policy in self.loaded.policies.values())
        if skipped >= self.settings.limits.max_skipped:
            raise RunError(
                f"{counted(skipped, 'update')} in a row were not finite (limits.max_skipped); see "
                f"{self.folder}/failed, and `rlcore replay {self.folder}/failed/step_{self.state.step - 1} --check`"
            )

    # -- evaluation

    def evaluate_before(self) -> None:
        """Evaluate the weights that a run begins with; a resumed run that has trained can no longer tell."""
        if not self.loaded.heldout:
            return
        write_heldout(self.folder / "heldout.jsonl", self.loaded.heldout, self.loaded.show)
        if self.state.step == 0 and not self.state.before:
            self.state.before = self.evaluate()
            self.save()

    def evaluation_is_due(self) -> bool:
        """Tell whether an evaluation is due after this step; the one after the last step belongs to the end."""
        every = self.settings.eval.every
        due = bool(every) and self.state.step % every == 0 and self.state.step < self.loaded.total_steps
        return due and bool(self.loaded.heldout)

    def evaluate(self) -> dict[str, float]:
        """Evaluate the weights of this step on the held-out problems, write a row, and return it."""
        values = self.loaded.evaluate(self.loaded.heldout, self.settings, self.progress)
        self._evaluations.append(self.state.step, values)
        found = [shown(values, name) for name in ("loss", "success", "score") if name in values]
        found += [shown(values, name) for name in values if "@" in name and not name.endswith("_se")]
        found += [counted(round(values["samples"]), "sample")] if "samples" in values else []
        self.progress.say(f"held out, after {counted(self.state.step, 'step')}: {', '.join(found)}")
        return values

    # -- checkpoints

    def save(self) -> None:
        """Write a checkpoint of this step, whole or not at all."""
        folder = self.folder / "checkpoints"
        with ExitStack() as still:
            for policy in self.loaded.policies.values():
                still.enter_context(policy.executor.standing_still())
            saved = {
                **self.loaded.state_dict(),
                "training": self.state.state_dict(),
                # A person may edit the folder's config.yaml; what these weights were trained with stands here.
                "config": self.config,
            }
            writers, keep = self.loaded.writers(), self.settings.save.keep
            path = checkpoint.save(folder, self.state.step, saved, writers=writers, keep=keep)
        registry().notify("checkpoint_saved", step=self.state.step, folder=path)

    def restore(self, path: Path) -> None:
        """Put the loop and all that it has loaded where a checkpoint was.

        Raises CheckpointError where it holds other roles than this run trains.
        """
        saved = checkpoint.load(path)
        self.loaded.load_state_dict(saved, where=path)
        self.state.load_state_dict(saved["training"])
        left = max(self.loaded.total_steps - self.state.step, 0)
        self.progress.say(f"resumed from {path}, {counted(left, 'step')} to go")


def _add_times(metrics: Metrics, result: StepResult, graph: Graph, seconds: float) -> None:
    metrics.put("seconds/step", seconds)
    for name, spent in result.seconds.items():
        metrics.put(f"seconds/{name}", spent)
    drawing = (n.name for n in graph.nodes if n.view == "sample" and "tokens" in n.writes)
    sampling = sum(result.seconds.get(name, 0.0) for name in drawing)
    if sampling and result.drawn_tokens:
        metrics.put("speed/rollout_tokens_per_second", result.drawn_tokens / sampling)
    metrics.put("speed/tokens_per_second", result.batch.tokens_total / seconds)
