"""Run: an algorithm, a model, data and a reward, trained step after step, kept in a folder."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlcore import checkpoint
from rlcore.component import name_of
from rlcore.config.assemble import assemble
from rlcore.data import DataOrder, Row
from rlcore.errors import RunError
from rlcore.experiment import Experiment
from rlcore.graph import Graph
from rlcore.protocols import GraphSource
from rlcore.registry import registry
from rlcore.run import build
from rlcore.run import folder as folders
from rlcore.run.evaluate import evaluate, write_heldout
from rlcore.run.history import History
from rlcore.run.inputs import (
    Inputs,
    close,
    heldout_of,
    how_to_hold_out,
    left_out,
    make_order,
    prepare,
    rows_of,
    steps_of,
)
from rlcore.run.loading import Loaded, load, try_prompts
from rlcore.run.lock import locked
from rlcore.run.progress import Progress
from rlcore.run.resume import check_resumed, going_on_from
from rlcore.run.signals import Stopping
from rlcore.run.start import base_folder
from rlcore.run.state import state_of, take_up
from rlcore.run.supervised import fit
from rlcore.run.training import Training
from rlcore.settings import Settings
from rlcore.tracking import JsonLines, Trackers, started_trackers


class Run:
    """One training run.

    >>> Run(algorithm=grpo(), model="folder", data="svamp", reward="numeric_answer", steps=20).train()  # doctest: +SKIP

    Components are objects or registered names; the rest are the fields of `rlcore.settings.Settings`, nested ones as
    dicts (`eval={"every": 5}`). Nothing is loaded before `check`, `train` or `evaluate`.
    """

    def __init__(
        self,
        *,
        algorithm: GraphSource | str,
        model: Any,
        data: Any,
        reward: Any,
        reward_manager: Any = "default",
        environment: Any = "single_turn",
        sampler: Any = "embedded",
        order: Any = "shuffled",
        quiet: bool = False,
        **settings: Any,
    ) -> None:
        experiment = assemble(
            algorithm=algorithm, model=model, data=data, reward=reward, reward_manager=reward_manager,
            environment=environment, sampler=sampler, order=order, settings=settings,
        )  # fmt: skip
        self._begin(experiment, quiet)

    @classmethod
    def of(cls, experiment: Experiment, *, quiet: bool = False) -> Run:
        """Return the run of a configuration that `rlcore.config.load` has made."""
        run = cls.__new__(cls)
        cls._begin(run, experiment, quiet)
        return run

    def _begin(self, experiment: Experiment, quiet: bool) -> None:
        self.experiment = experiment
        self.settings: Settings = experiment.settings
        self.algorithm: GraphSource = experiment.algorithm
        self.progress = Progress(quiet=quiet)
        self.history = History()
        self.summary: dict[str, Any] = {}
        self.folder: Path | None = None
        self.step = 0
        self.before: dict[str, float] = {}
        self._loaded: Loaded | None = None
        self._evaluations: JsonLines | None = None
        self._goes_on_from: Path | None = None

    # -- before anything loads

    @property
    def graph(self) -> Graph:
        """The graph of one step."""
        return self.experiment.graph

    def rows(self, split: str | None = None) -> Sequence[Row]:
        """Return the data set's rows: its own split, or another one."""
        return rows_of(self.experiment, split)

    def heldout(self) -> Sequence[Row]:
        """Return the held-out rows: `eval.data`, else the `heldout` split where the run trains on `train`."""
        return heldout_of(self.experiment)

    def check(self) -> list[str]:
        """Check all short of a model's weights; return what was found, a line each. Raises what a run would raise."""
        self._check_folder()
        inputs = prepare(self.experiment)
        close(inputs.manager)
        plan, settings = inputs.graph.resolve(), self.settings
        rows, heldout, said = try_prompts(self.experiment, inputs)
        if settings.replay is None:
            # More prompts a step than there are rows are refused by the order itself.
            make_order(self.experiment.order, rows, settings.seed).next(settings.prompts)
        steps = steps_of(settings, len(rows))
        return [
            f"graph: {len(plan.nodes)} nodes, loads {', '.join(plan.roles)}",
            f"data: {len(rows)} rows to train on, {len(heldout)} held out{left_out(inputs.rows)}",
            f"reward: {name_of(self.experiment.reward)}",
            f"steps: {steps} of {settings.prompts} prompts x {self.algorithm.group_size} samples",
            *said,
        ]

    def load(self) -> Loaded:
        """Load models and data once; return what the run works with."""
        if self._loaded is None:
            self._loaded = load(self.experiment, self.progress, lambda: self.step)
        return self._loaded

    # -- training

    def train(self) -> Run:
        """Train to the last step, or until a signal; return the run itself: `.history` and `.summary` follow."""
        with self._own_folder() as folder:
            self._train(folder)
        registry().notify("run_finished", run=self)
        return self

    def _train(self, folder: Path) -> None:
        begin, cpu = time.perf_counter(), time.process_time()
        trackers = Trackers(started_trackers(self.experiment.services.get("tracker", ())))
        try:
            with Stopping() as stopping:
                loaded = self.load()
                self._describe(folder)
                self._take_up()
                trackers.start(
                    run=folder.name,
                    project=self.settings.run.project,
                    config=self.experiment.resolved,
                    folder=folder,
                )
                registry().notify("run_started", run=self, folder=folder)
                self._evaluate_before(loaded, folder)
                Training(self, loaded, folder, trackers).steps(stopping)
                after = self._finish(loaded, folder, stopped=stopping.asked)
                self._summarise(
                    folder,
                    after,
                    seconds=time.perf_counter() - begin,
                    cpu_seconds=time.process_time() - cpu,
                    stopped=stopping.asked,
                )
        except BaseException as error:
            registry().notify("run_failed", run=self, error=error)
            raise
        finally:
            trackers.finish()
            if self._loaded is not None:
                close(self._loaded.manager)

    @contextmanager
    def _own_folder(self) -> Iterator[Path]:
        """Give the run's folder, which nobody else writes meanwhile; one that is left empty is removed again."""
        folder = self._open_folder()
        try:
            with locked(folder):
                if self.settings.resume is not None:
                    # Before anything is loaded or written.
                    self._goes_on_from = self._check_resume(folder)
                yield folder
        except BaseException:
            if folders.free(folder):
                self.folder = None
            raise

    def _open_folder(self) -> Path:
        if self.settings.resume is not None:
            self.folder = folders.existing_run(self.settings.resume)
        elif self.folder is None:
            wanted = self.settings.run
            self.folder = folders.new_folder(wanted.folder, wanted.name, project=wanted.project)
        return self.folder

    def _check_resume(self, folder: Path) -> Path | None:
        """Return the checkpoint that a resumed run goes on from, None for its beginning; raise what keeps it."""
        path = going_on_from(folder)
        check_resumed(folder, path, self.experiment.resolved)
        return path

    def _check_folder(self) -> None:
        """Raise what would keep this run from its folder; make nothing."""
        wanted = self.settings.run
        if self.settings.resume is not None:
            self._check_resume(folders.existing_run(self.settings.resume))
        elif self.folder is None:
            folders.check_place(wanted.folder, wanted.name)

    def _describe(self, folder: Path) -> None:
        """Write what runs. Once everything is loaded: a run that could not begin leaves its name free."""
        # Without its name, so that the file can be run again beside this run.
        for name, tree in (("config.yaml", self.experiment.said), ("resolved.yaml", self.experiment.resolved)):
            folders.write_config(folder / name, {**tree, "run": {**tree["run"], "name": None}})
        folders.write_versions(folder / "versions.json", self.experiment.components)

    def _evaluate_before(self, loaded: Loaded, folder: Path) -> None:
        if not loaded.heldout:
            self.progress.say(f"no held-out problems: {how_to_hold_out(self.experiment.dataset)}")
            return
        write_heldout(folder / "heldout.jsonl", loaded.heldout, loaded.show)
        # A resumed run that has trained already can no longer tell what was before.
        if self.step == 0 and not self.before:
            self.before = self.evaluated()
            self.save()

    def _finish(self, loaded: Loaded, folder: Path, *, stopped: bool) -> dict[str, float]:
        """Save what was trained; return the evaluation after the last step, empty where there is none."""
        self.save()
        if stopped and self.step < loaded.total_steps:
            self.progress.say(
                f"stopped after step {self.step} of {loaded.total_steps}; go on with: rlcore train resume={folder}"
            )
        after = self.evaluated() if loaded.heldout and not stopped else {}
        loaded.trainers["trainer"].save_model(folder / "model")
        return after

    def _summarise(self, folder: Path, after: dict[str, float], **ended: Any) -> None:
        self.summary = {
            "success_before": self.before.get("success"),
            "success_after": after.get("success"),
            "score_before": self.before.get("score"),
            "score_after": after.get("score"),
            "steps": self.step,
            "updates_applied": self._updates_applied(),
            "unscored": self._unscored(),
            **ended,
            "run": str(folder),
        }
        (folder / "summary.json").write_text(json.dumps(self.summary, indent=1), encoding="utf-8")

    def _updates_applied(self) -> int:
        """Return how many updates changed weights; warn where none did: such a run ends with what it began with."""
        applied, skipped, empty = (self.history.total(f"updates/{name}") for name in ("applied", "skipped", "empty"))
        if self.step and not applied:
            self.progress.warn(
                f"no update was applied in {self.step} steps ({skipped} were not finite, {empty} had nothing to train "
                f"on): the weights are those that the run began with"
            )
        return applied

    def _unscored(self) -> int:
        """Return how many rows had no score; say so where there were any: nothing was learnt from them."""
        unscored, failed = (
            round(sum(row.get(f"rows/{name}", 0.0) for row in self.history)) for name in ("unscored", "failed")
        )
        if unscored:
            self.progress.say(f"{unscored} rows unscored ({failed} failed)")
        return unscored

    def fit_supervised(self) -> dict[str, float]:
        """Train on the rows' completions alone (`warm_start.*` says how long) and write `model/`; return the losses."""
        with self._own_folder() as folder:
            build.use_threads(self.settings.threads)
            rows = self.rows()
            model = build.load_model(base_folder(self.experiment, self.progress, warm=False), self.settings)
            self._describe(folder)
            losses = fit(model, rows, self.settings, self.progress)
            model.save(folder / "model")
        return losses

    # -- evaluation

    def evaluate(self, rows: Sequence[Row] | None = None) -> dict[str, float]:
        """Grade the held-out rows, or others, and return success, score, length and counts.

        Raises RunError if there is nothing to grade.
        """
        loaded = self.load()
        problems = list(rows) if rows is not None else loaded.heldout
        if not problems:
            raise RunError(
                "there is nothing to evaluate on: the data set has no held-out split; set eval.data to a file"
            )
        return evaluate(
            problems, rollout=loaded.rollout, grader=loaded.grader, settings=self.settings.eval, progress=self.progress
        )

    def evaluated(self) -> dict[str, float]:
        """Evaluate the weights of this step, write a row of `evaluations.jsonl`, and return what was found."""
        found = self.evaluate()
        if self._evaluations is None:
            self._evaluations = JsonLines(self._home / "evaluations.jsonl")
        self._evaluations.append(self.step, found)
        self.progress.say(
            f"held out, after {self.step} steps: success {found['success']:.3f}, score {found['score']:.3f}, "
            f"{found['samples']:.0f} samples"
        )
        return found

    # -- checkpoints

    @property
    def _home(self) -> Path:
        if self.folder is None:
            raise RunError("this run has no folder yet: it is made by train()")
        return self.folder

    def save(self) -> None:
        """Write a checkpoint of this step, whole or not at all."""
        path = checkpoint.save(
            self._home / "checkpoints", self.step, state_of(self, self.load()), keep=self.settings.save.keep
        )
        registry().notify("checkpoint_saved", step=self.step, folder=path)

    def _take_up(self) -> None:
        """Load the newest whole checkpoint of a resumed run; one that never did a step begins at its first."""
        if self.settings.resume is None:
            return
        path = self._goes_on_from
        if path is None:
            self.progress.warn(f"no step of {self.folder} was ever done: the run begins at its first step")
            return
        loaded = self.load()
        take_up(self, loaded, checkpoint.load(path), path)
        self.progress.say(f"resumed from {path}, {loaded.total_steps - self.step} steps to go")


__all__ = ["Run"]
