"""Run: an algorithm, a model, data and a reward, trained step after step, kept in a folder."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlcore import checkpoint
from rlcore.algorithm import Algorithm
from rlcore.component import Component, bind, name_of, options
from rlcore.config.notation import read_file
from rlcore.data import DataOrder, Row
from rlcore.errors import CheckpointError, RewardError, RunError
from rlcore.execute.grade import Grader
from rlcore.execute.local import Outcome
from rlcore.execute.rollout import Rollout
from rlcore.experiment import Experiment, assemble
from rlcore.registry import get, registry
from rlcore.run import build
from rlcore.run import folder as folders
from rlcore.run.dry import dry_step
from rlcore.run.evaluate import evaluate, write_heldout
from rlcore.run.history import History
from rlcore.run.progress import Progress
from rlcore.run.replay import Replayed, save_batch
from rlcore.run.report import completions, rollout_rows, step_metrics
from rlcore.run.signals import Stopping
from rlcore.run.start import base_folder, check_resumed
from rlcore.run.supervised import fit
from rlcore.settings import Settings
from rlcore.tracking import JsonLines, Trackers


class Run:
    """One training run.

    >>> Run(algorithm=grpo(), model="folder", data="svamp", reward="numeric_answer", steps=20).train()  # doctest: +SKIP

    Components are objects or registered names; the rest are the fields of `rlcore.settings.Settings`, nested ones as
    dicts (`eval={"every": 5}`). Nothing is loaded before `check`, `train` or `evaluate`.
    """

    def __init__(
        self,
        *,
        algorithm: Algorithm | str,
        model: Any,
        data: Any,
        reward: Any,
        reward_manager: Any = "default",
        environment: Any = "single_turn",
        sampler: Any = "embedded",
        quiet: bool = False,
        **settings: Any,
    ) -> None:
        experiment = assemble(
            algorithm=algorithm, model=model, data=data, reward=reward, reward_manager=reward_manager, environment=environment,
            sampler=sampler, settings=settings,
        )  # fmt: skip
        self._begin(experiment, quiet)

    @classmethod
    def of(cls, experiment: Experiment, *, quiet: bool = False) -> Run:
        """Return the run of a configuration that `rlcore.config.load` has made."""
        run = cls.__new__(cls)
        run._begin(experiment, quiet)
        return run

    def _begin(self, experiment: Experiment, quiet: bool) -> None:
        self.experiment = experiment
        self.settings: Settings = experiment.settings
        self.algorithm: Algorithm = experiment.algorithm
        self.progress = Progress(quiet=quiet)
        self.history = History()
        self.summary: dict[str, Any] = {}
        self.folder: Path | None = None
        self.step = 0
        self.groups = 0
        self._loaded: build.Loaded | None = None
        self._before: dict[str, float] = {}

    # -- before anything loads

    @property
    def graph(self) -> Any:
        """The graph of one step."""
        return self.algorithm.graph(
            reward=self.experiment.reward, environment=self.experiment.environment, table=registry().columns
        )

    def rows(self, split: str | None = None) -> list[Row]:
        """Return the data set's rows: its own split, or another one."""
        dataset = self.experiment.dataset
        return list(bind(dataset, split=split)() if split is not None else dataset())

    def _has_split(self, split: str) -> bool:
        option = options(self.experiment.dataset).get("split")
        return option is not None and split in getattr(option.annotation, "__args__", ())

    def heldout(self) -> list[Row]:
        """Return the held-out rows: `eval.data`, else the `heldout` split where the run trains on `train`."""
        wanted = self.settings.eval.data
        dataset = self.experiment.dataset
        if wanted is None:
            split = options(dataset).get("split")
            rows = (
                self.rows("heldout")
                if self._has_split("heldout") and split is not None and split.default == "train"
                else []
            )
        elif self._has_split(wanted):
            rows = self.rows(wanted)
        elif "path" in options(dataset):
            rows = list(bind(dataset, path=wanted, split="all")())
        else:
            raise RunError(
                f"eval.data={wanted!r} is neither a split of {name_of(dataset)} nor can that data set read a file"
            )
        return rows[: self.settings.eval.limit] if self.settings.eval.limit else rows

    def check(self) -> list[str]:
        """Check everything short of loading a model; return what was found, a line each. Raises what a run would raise."""
        plan = self.graph.resolve()
        rows = self.rows()
        manager = self._manager(rows)
        close = getattr(manager, "close", None)
        if close is not None:
            close()
        held = self.heldout()
        dry_step(self.graph, self.algorithm, self.settings, rows, registry().names("readout"))
        if not self._replaying:
            DataOrder(len(rows), self.settings.seed).next(self.settings.prompts)
        return [
            f"graph: {len(plan.nodes)} nodes, loads {', '.join(plan.roles)}",
            f"data: {len(rows)} rows to train on, {len(held)} held out",
            f"reward: {name_of(self.experiment.reward)}",
            f"steps: {self._steps(len(rows))} of {self.settings.prompts} prompts x {self.algorithm.group_size} samples",
        ]

    @property
    def _replaying(self) -> bool:
        return self.settings.replay is not None

    def _manager(self, rows: Sequence[Row]) -> Any:
        manager = self.experiment.reward_manager(self.experiment.reward)
        check = getattr(manager, "check", None)
        if check is not None:
            check(set().union(*(row.keys() for row in rows)))
        return manager

    def _steps(self, count: int) -> int:
        if self.settings.epochs is not None:
            return DataOrder(count, self.settings.seed).steps(self.settings.epochs, self.settings.prompts)
        return self.settings.steps or 100

    # -- loading

    def load(self) -> build.Loaded:
        """Load models and data once; return what the run works with."""
        if self._loaded is not None:
            return self._loaded
        settings, experiment = self.settings, self.experiment
        build.use_threads(settings.threads)
        graph = self.graph
        graph.resolve()
        rows = self.rows()
        held = self.heldout()
        manager = self._manager(rows)
        dry_step(graph, self.algorithm, settings, rows, registry().names("readout"))
        base = base_folder(settings, self, self.progress)
        steps = self._steps(len(rows))
        model, trainers = build.load_trainers(graph, base, settings, self.algorithm, steps)
        self.train_rows, dropped = build.fit_rows(rows, model, settings)
        self.heldout_rows = build.fit_rows(held, model, settings)[0] if held else []
        if dropped:
            self.progress.say(
                f"{dropped} of {len(rows)} prompts are longer than max_prompt_tokens={settings.max_prompt_tokens} and left out"
            )
        self.order = DataOrder(len(self.train_rows), settings.seed)
        self.total_steps = self._steps(len(self.train_rows))
        sampler = build.make_sampler(experiment.sampler, model, trainers.get("trainer"), settings)
        loaded = build.Loaded(
            model, trainers, sampler, manager, experiment.environment(), None, build.sampling_params(settings)
        )  # type: ignore[arg-type]
        rollout: Any = Rollout(
            sampler,
            model.tokenizer,
            loaded.environment,
            loaded.params,
            settings.seed,
            loaded.decode,
            max_positions=model.max_positions,
        )
        if settings.replay is not None:
            rollout = Replayed(rollout, folders.existing_run(settings.replay), lambda: self.step)
        self.grader = Grader(manager, loaded.decode, loaded.show)
        loaded.executor = build.executor_of(
            graph, rollout=rollout, grader=self.grader, trainers=trainers, algorithm=self.algorithm,
            settings=settings, draw=self._draw, watch=self._watch,
        )  # fmt: skip
        self._loaded = loaded
        return loaded

    def _draw(self, count: int) -> list[tuple[int, Mapping[str, Any]]]:
        """Draw prompts: a group id, unique in the run, is made here and nowhere else."""
        drawn: list[tuple[int, Mapping[str, Any]]] = []
        for index in self.order.next(count):
            drawn.append((self.groups, self.train_rows[index]))
            self.groups += 1
        return drawn

    @staticmethod
    def _watch(step: int, node: str, seconds: float, rows: int) -> None:
        registry().notify("node_finished", step=step, node=node, seconds=seconds, rows=rows)

    # -- training

    def train(self) -> Run:
        """Train to the last step, or until a signal; return the run itself, so that `.history` and `.summary` follow."""
        begin, cpu = time.perf_counter(), time.process_time()
        self._open_folder()
        trackers = Trackers({name: get("tracker", name)() for name in self.settings.tracker})
        assert self.folder is not None
        try:
            with Stopping() as stopping:
                loaded = self.load()
                self._describe()
                self._take_up()
                trackers.start(
                    run=self.folder.name,
                    project=self.settings.run.project,
                    config=self.experiment.resolved,
                    folder=self.folder,
                )
                registry().notify("run_started", run=self, folder=self.folder)
                self._evaluate_before(loaded)
                self._loop(loaded, trackers, stopping)
                self._finish(loaded, stopping, begin, cpu)
        except BaseException as error:
            registry().notify("run_failed", run=self, error=error)
            raise
        finally:
            trackers.finish()
            close = getattr(self._loaded.manager, "close", None) if self._loaded is not None else None
            if close is not None:
                close()
        registry().notify("run_finished", run=self)
        return self

    def _open_folder(self) -> None:
        if self.settings.resume is not None:
            self.folder = folders.existing_run(self.settings.resume)
            check_resumed(read_file(self.folder / "config.yaml"), self.experiment.resolved)
        elif self.folder is None:
            self.folder = folders.new_folder(
                self.settings.run.folder, self.settings.run.name, project=self.settings.run.project
            )

    def _describe(self) -> None:
        """Write what runs. Once everything is loaded: a run that could not begin leaves its name free."""
        assert self.folder is not None
        folders.write_config(self.folder / "config.yaml", self.experiment.resolved)
        folders.write_versions(self.folder / "versions.json", self.experiment.components)

    def _evaluate_before(self, loaded: build.Loaded) -> None:
        assert self.folder is not None
        if not self.heldout_rows:
            return
        write_heldout(self.folder / "heldout.jsonl", self.heldout_rows, loaded.show)
        if not self._before:
            self._before = self._evaluated(0)
            self._save(loaded)

    def _evaluated(self, step: int) -> dict[str, float]:
        found = self.evaluate()
        assert self.folder is not None
        if not hasattr(self, "_evaluations"):
            self._evaluations = JsonLines(self.folder / "evaluations.jsonl")
        self._evaluations.append(step, found)
        self.progress.say(
            f"held out, after {step} steps: success {found['success']:.3f}, score {found['score']:.3f}, {found['samples']:.0f} samples"
        )
        return found

    def evaluate(self, rows: Sequence[Row] | None = None) -> dict[str, float]:
        """Grade the held-out rows, or others, and return success, score, length and counts."""
        loaded = self.load()
        problems = list(rows) if rows is not None else self.heldout_rows
        if not problems:
            raise RunError(
                "there is nothing to evaluate on: the data set has no held-out split; set eval.data to a file"
            )
        return evaluate(
            problems, sampler=loaded.sampler, manager=loaded.manager, environment=loaded.environment, tokenizer=loaded.model.tokenizer,
            decode=loaded.decode, show=loaded.show, settings=self.settings.eval, params=loaded.params, seed=self.settings.seed,
            progress=self.progress,
        )  # fmt: skip

    def _loop(self, loaded: build.Loaded, trackers: Trackers, stopping: Stopping) -> None:
        settings = self.settings
        assert self.folder is not None
        rollouts = JsonLines(self.folder / "rollouts.jsonl")
        with self.progress.phase("training", self.total_steps) as phase:
            phase.done = self.step
            while self.step < self.total_steps and not stopping.asked:
                begin = time.perf_counter()
                outcome = loaded.executor.run_step(self.step, progress=self.step / self.total_steps)
                seconds = time.perf_counter() - begin
                texts = completions(outcome.batch, loaded.decode)
                parts = self.grader.parts or ()
                metrics = step_metrics(outcome, texts, settings.reflection_phrases, parts)
                self._time(metrics, outcome, seconds)
                rollouts.append(self.step + 1, *rollout_rows(outcome.batch, texts, loaded.show, parts))
                if settings.save.rollouts:
                    save_batch(self.folder / "rollouts", self.step, outcome.batch)
                if not outcome.finite:
                    self._keep_failed(loaded, outcome)
                self.step += 1
                values = metrics.values()
                if (
                    settings.eval.every
                    and self.step % settings.eval.every == 0
                    and self.step < self.total_steps
                    and self.heldout_rows
                ):
                    values |= {f"eval/{name}": value for name, value in self._evaluated(self.step).items()}
                self.history.add(self.step, values)
                trackers.log(self.step, values)
                registry().notify("step_finished", step=self.step, metrics=values)
                phase.advance(
                    note=f"score {values.get('score', float('nan')):.3f}  {values['speed/tokens_per_second']:.0f} tokens/s"
                )
                self._stop_if_never_finite(loaded)
                if settings.save.every and self.step % settings.save.every == 0:
                    self._save(loaded)

    def _time(self, metrics: Any, outcome: Outcome, seconds: float) -> None:
        metrics.put("seconds/step", seconds)
        for name, spent in outcome.seconds.items():
            metrics.put(f"seconds/{name}", spent)
        sampling = outcome.seconds.get("rollout", 0.0)
        if sampling and outcome.drawn_tokens:
            metrics.put("speed/rollout_tokens_per_second", outcome.drawn_tokens / sampling)
        metrics.put("speed/tokens_per_second", outcome.batch.tokens_total / seconds)

    def _keep_failed(self, loaded: build.Loaded, outcome: Outcome) -> None:
        assert self.folder is not None
        state = {
            "batch": {
                n: outcome.batch.flat(n) if outcome.batch.table[n].dims == ("B", "T") else outcome.batch[n]
                for n in outcome.batch.names
            },
            "scalars": dict(loaded.executor.scalars),
            "trainers": {role: t.state_dict() for role, t in loaded.trainers.items()},
        }
        kept = checkpoint.save(self.folder / "failed", self.step, state)
        self.progress.say(
            f"step {self.step + 1}: an update was not finite and was skipped; kept for `rlcore replay {kept} --check`"
        )

    def _stop_if_never_finite(self, loaded: build.Loaded) -> None:
        if loaded.executor.skipped >= self.settings.limits.max_skipped:
            raise RunError(
                f"{loaded.executor.skipped} updates in a row were not finite (limits.max_skipped); see {self.folder}/failed, "
                f"and `rlcore replay {self.folder}/failed/step_{self.step - 1} --check`"
            )

    def _finish(self, loaded: build.Loaded, stopping: Stopping, begin: float, cpu: float) -> None:
        assert self.folder is not None
        self._save(loaded)
        if stopping.asked:
            self.progress.say(
                f"stopped after step {self.step} of {self.total_steps}; go on with: rlcore train resume={self.folder}"
            )
        after = self._evaluated(self.step) if self.heldout_rows and not stopping.asked else {}
        loaded.trainers["trainer"].save_model(self.folder / "model")
        self.summary = {
            "success_before": self._before.get("success"),
            "success_after": after.get("success"),
            "score_before": self._before.get("score"),
            "score_after": after.get("score"),
            "steps": self.step,
            "seconds": time.perf_counter() - begin,
            "cpu_seconds": time.process_time() - cpu,
            "run": str(self.folder),
            "stopped": stopping.asked,
        }
        (self.folder / "summary.json").write_text(json.dumps(self.summary, indent=1), encoding="utf-8")

    def fit_supervised(self) -> dict[str, float]:
        """Train on the rows' completions alone (`warm_start.*` says how long) and write `model/`; return the losses."""
        self._open_folder()
        self._describe()
        assert self.folder is not None
        build.use_threads(self.settings.threads)
        rows = self.rows()
        model = build.load_model(base_folder(self.settings, self, self.progress, warm=False), self.settings)
        losses = fit(model, rows, self.settings, self.progress)
        model.save(self.folder / "model")
        return losses

    # -- checkpoints

    def _save(self, loaded: build.Loaded) -> None:
        assert self.folder is not None
        state = {
            "trainers": {role: t.state_dict() for role, t in loaded.trainers.items() if not t.config.frozen},
            "executor": loaded.executor.state_dict(),
            "order": self.order.state_dict(),
            "run": {
                "step": self.step,
                "groups": self.groups,
                "before": self._before,
                "parts": list(self.grader.parts or ()),
            },
            "history": [dict(row) for row in self.history],
        }
        path = checkpoint.save(self.folder / "checkpoints", self.step, state, keep=self.settings.save.keep)
        registry().notify("checkpoint_saved", step=self.step, folder=path)

    def _take_up(self) -> None:
        """Load the newest whole checkpoint of a resumed run; without one it begins anew."""
        if self.settings.resume is None:
            return
        assert self.folder is not None and self._loaded is not None
        path = checkpoint.newest(self.folder / "checkpoints")
        if path is None:
            self.progress.say(f"no whole checkpoint in {self.folder}: the run begins at its first step")
            return
        state = checkpoint.load(path)
        for role, saved in state["trainers"].items():
            if role not in self._loaded.trainers:
                raise CheckpointError(f"{path} holds weights of role {role!r}, which this run does not have")
            self._loaded.trainers[role].load_state_dict(saved)
        self._loaded.executor.load_state_dict(state["executor"])
        self.order.load_state_dict(state["order"])
        self.step, self.groups = int(state["run"]["step"]), int(state["run"]["groups"])
        self._before = dict(state["run"]["before"])
        self.grader.parts = tuple(state["run"]["parts"]) or None
        self.history = History(state["history"])
        self.progress.say(f"resumed from {path}, {self.total_steps - self.step} steps to go")


__all__ = ["RewardError", "Run"]
