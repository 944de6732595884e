"""Run: an algorithm, a model, data and a reward, trained step after step, kept in a folder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlcore.component import name_of
from rlcore.config.assemble import assemble
from rlcore.data import Row
from rlcore.errors import RunError, counted
from rlcore.experiment import Experiment
from rlcore.graph import Graph
from rlcore.protocols import GraphSource
from rlcore.registry import registry
from rlcore.run import run_folder as folders
from rlcore.run.history import History
from rlcore.run.inputs import (
    count_steps,
    dropped_rows_note,
    heldout_hint,
    load_heldout,
    load_rows,
    make_order,
    prepare,
)
from rlcore.run.loading import LoadedRun, load, try_prompts
from rlcore.run.lock import locked
from rlcore.run.loop import TrainingLoop
from rlcore.run.progress import Progress
from rlcore.run.resume import check_resumed, checkpoint_to_resume, fixed_settings
from rlcore.run.signals import StopSignals
from rlcore.run.training_state import TrainingState, write_summary
from rlcore.settings import Settings
from rlcore.tracking import Trackers, started_trackers


class Run:
    """One training run.

    >>> Run(algorithm=grpo(), model="folder", data="svamp", reward="numeric_answer", steps=20).train()  # doctest: +SKIP

    `model` is a folder, a name, or a pair (module, tokenizer) of transformers, of which a copy is trained.
    Components are objects or registered names. So are the services, by the key of their configuration group:
    `sampler=FakeSampler`, `optimizer={"name": "adamw", "weight_decay": 0.1}`, `tracker=["console"]`. The rest are the
    fields of `rlcore.settings.Settings`, nested ones as dicts (`eval={"every": 5}`). Nothing is loaded before `check`,
    `train` or `evaluate`.
    """

    def __init__(
        self,
        *,
        algorithm: GraphSource | str,
        model: Any,
        data: Any,
        reward: Any = None,
        quiet: bool = False,
        **settings: Any,
    ) -> None:
        experiment = assemble(algorithm=algorithm, model=model, data=data, reward=reward, settings=settings)
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
        self.state = TrainingState()
        self.summary: dict[str, Any] = {}
        self.folder: Path | None = None
        self._loaded: LoadedRun | None = None
        self._goes_on_from: Path | None = None

    @property
    def step(self) -> int:
        """Return how many steps are done."""
        return self.state.step

    @property
    def history(self) -> History:
        """Return the metrics of each step."""
        return self.state.history

    @property
    def before(self) -> dict[str, float]:
        """Return the evaluation of the weights that the run began with; empty where there was none."""
        return self.state.before

    # -- before anything is loaded

    @property
    def graph(self) -> Graph:
        """Return the graph of one step."""
        return self.experiment.graph

    def rows(self, split: str | None = None) -> Sequence[Row]:
        """Return the data set's rows: its own split, or another one."""
        return load_rows(self.experiment, split)

    def heldout(self) -> Sequence[Row]:
        """Return the held-out rows: `eval.data`, else the `heldout` split where the run trains on `train`."""
        return load_heldout(self.experiment)

    def check(self) -> list[str]:
        """Check everything but a model's weights; return a line on each thing. Raises what a run would raise."""
        self._check_folder()
        Trackers(started_trackers(self.experiment.services.get("tracker", ()))).check()
        inputs = prepare(self.experiment)
        inputs.close()
        plan, settings = inputs.graph.resolve(), self.settings
        rows, heldout, notes = try_prompts(self.experiment, inputs)
        if settings.replay is None:
            # More prompts a step than there are rows are refused by the order itself.
            make_order(self.experiment.order, rows, settings.seed).next(settings.prompts)
        steps = count_steps(settings, len(rows))
        return [
            f"graph: {counted(len(plan.nodes), 'node')}, loads {', '.join(plan.roles)}",
            f"data: {counted(len(rows), 'row')} to train on, {len(heldout)} held out{dropped_rows_note(inputs.rows)}",
            f"reward: {name_of(self.experiment.reward) if self.experiment.reward is not None else 'none'}",
            f"steps: {steps} of {counted(settings.prompts, 'prompt')} x {counted(self.algorithm.group_size, 'sample')}",
            *notes,
        ]

    def load(self) -> LoadedRun:
        """Load models and data once; return what the run works with."""
        if self._loaded is None:
            self._loaded = load(self.experiment, self.progress, lambda: self.state.step)
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
            with StopSignals() as stopping:
                loop = self.loop(folder, trackers)
                self._describe(folder)
                self._restore(loop)
                trackers.start(
                    run=folder.name,
                    project=self.settings.run.project,
                    config=self.experiment.resolved,
                    folder=folder,
                )
                registry().notify("run_started", run=self, folder=folder)
                if not loop.loaded.heldout:
                    self.progress.say(f"no held-out problems: {heldout_hint(self.experiment.dataset)}")
                after = loop.train(stopping)
                self.summary = write_summary(
                    folder,
                    self.state,
                    after,
                    self.progress,
                    seconds=time.perf_counter() - begin,
                    cpu_seconds=time.process_time() - cpu,
                    stopped=stopping.asked,
                    groups=loop.loaded.account(),
                )
        except BaseException as error:
            registry().notify("run_failed", run=self, error=error)
            if self._loaded is not None:
                self._loaded.close()
            raise
        else:
            self.load().close(processes=False)
        finally:
            trackers.finish()

    def loop(self, folder: Path, trackers: Trackers) -> TrainingLoop:
        """Return the training loop of this run, with everything loaded, at the step that the run is at."""
        return TrainingLoop(
            state=self.state,
            loaded=self.load(),
            settings=self.settings,
            config=fixed_settings(self.experiment.resolved),
            folder=folder,
            trackers=trackers,
            progress=self.progress,
        )

    def _restore(self, loop: TrainingLoop) -> None:
        """Go on from the newest whole checkpoint of a resumed run; one that never did a step begins at its first."""
        if self.settings.resume is None:
            return
        if self._goes_on_from is None:
            self.progress.warn(f"no step of {self.folder} was ever done: the run begins at its first step")
            return
        loop.restore(self._goes_on_from)

    @contextmanager
    def _own_folder(self) -> Iterator[Path]:
        """Yield the run's folder, locked against other processes; one that is left empty is removed again."""
        folder = self._open_folder()
        try:
            with locked(folder):
                if self.settings.resume is not None:
                    # Before anything is loaded or written.
                    self._goes_on_from = self._check_resume(folder)
                yield folder
        except BaseException:
            if folders.remove_if_empty(folder):
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
        """Return the checkpoint that a resumed run goes on from, None where it has none. Raises what rules it out."""
        path = checkpoint_to_resume(folder)
        check_resumed(folder, path, self.experiment.resolved)
        return path

    def _check_folder(self) -> None:
        """Raise what would keep this run from its folder, without making the folder."""
        wanted = self.settings.run
        if self.settings.resume is not None:
            self._check_resume(folders.existing_run(self.settings.resume))
        elif self.folder is None:
            folders.check_place(wanted.folder, wanted.name)

    def _describe(self, folder: Path) -> None:
        """Write configuration and versions. Once all is loaded: a run that could not begin leaves its name free."""
        # Without its name, so that the file can be run again beside this run.
        for name, tree in (("config.yaml", self.experiment.config), ("resolved.yaml", self.experiment.resolved)):
            folders.write_config(folder / name, {**tree, "run": {**tree["run"], "name": None}})
        folders.write_versions(folder / "versions.json", self.experiment.components)

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
        return loaded.evaluate(problems, self.settings, self.progress)
