"""Loading: from an experiment to models, sampler and executor, ready for the first step."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rlcore.batch import Batch
from rlcore.data import (
    LazyRows,
    Order,
    Row,
    check_room,
    completion_text,
    encode_prompt,
    fit_prompt,
    prompt_string,
    template_options,
)
from rlcore.errors import DataError
from rlcore.execute.grade import Grader
from rlcore.execute.local import LocalExecutor
from rlcore.execute.rollout import Rollout
from rlcore.experiment import Experiment
from rlcore.protocols import RewardManager, Sampler
from rlcore.registry import registry
from rlcore.run import build
from rlcore.run.drawn import check_kept_mass
from rlcore.run.folder import existing_run
from rlcore.run.problems import left_out, make_order, prepare, steps_of
from rlcore.run.progress import Progress
from rlcore.run.replay import Replayed
from rlcore.run.start import base_folder
from rlcore.settings import Settings
from rlcore.train.model import LanguageModel
from rlcore.train.trainer import TorchTrainer

log = logging.getLogger("rlcore")


@dataclass
class Fitting:
    """Makes rows that stay in their file ready as they are drawn, as `build.fit_rows` does with those in memory."""

    columns: Sequence[str]
    model: LanguageModel
    settings: Settings
    left_out: int = 0
    shortest: int | None = None

    def __call__(self, row: Row) -> Row | None:
        """Return a row with every column of the data, or None if its prompt is to be left out."""
        whole = {**dict.fromkeys(self.columns), **row}
        limit = self.settings.max_prompt_tokens
        ids = encode_prompt(self.model.tokenizer, whole["prompt"], **template_options(whole))
        fitted = fit_prompt(ids, limit, too_long=self.settings.long_prompts)
        if fitted is None:
            if not self.left_out:
                log.warning(
                    "a prompt of %d tokens was drawn, more than max_prompt_tokens=%d: it is passed over for the next,"
                    " and so are others like it",
                    len(ids),
                    limit,
                )
            self.left_out += 1
            self.shortest = min(self.shortest or len(ids), len(ids))
            return None
        check_room(len(fitted), self.settings.max_new_tokens, self.model.max_positions)
        return {**whole, "prompt": fitted} if len(fitted) < len(ids) else whole

    def none_fits(self, misses: int) -> DataError:
        """The error for data of which a whole epoch was drawn in vain."""
        return DataError(
            f"no prompt is left: {misses} rows in a row have more than max_prompt_tokens="
            f"{self.settings.max_prompt_tokens} tokens (the shortest {self.shortest})"
        )


@dataclass
class Drawing:
    """Draws prompts: a group id, unique in the run, is made here and nowhere else.

    `fit` is for rows that stay in their file: one whose prompt does not fit is passed over for the next. `pending` are
    the rows of groups that were drawn and not yet graded, for an order that goes by scores.
    """

    rows: Sequence[Row]
    order: Order
    groups: int = 0
    fit: Fitting | None = None
    pending: dict[int, int] = field(default_factory=dict)

    def __call__(self, count: int) -> list[tuple[int, Mapping[str, Any]]]:
        """Return (group id, data row) pairs. Raises DataError if not one row of a whole epoch fits."""
        drawn: list[tuple[int, Mapping[str, Any]]] = []
        for asked in self.order.next(count):
            index, row = self._fitting(asked)
            drawn.append((self.groups, row))
            if self.observes:
                self.pending[self.groups] = index
            self.groups += 1
        return drawn

    @property
    def observes(self) -> bool:
        """Whether the order goes by scores."""
        return hasattr(self.order, "observe")

    def observe(self, groups: Sequence[int], scores: Sequence[float]) -> None:
        """Tell the order the scores of each graded row's samples; groups that it did not draw are others' affair."""
        by_group: dict[int, list[float]] = {}
        for group, score in zip(groups, scores, strict=True):
            by_group.setdefault(group, []).extend([] if math.isnan(score) else [score])
        for group, known in by_group.items():
            if group in self.pending:
                self.order.observe(self.pending.pop(group), known)  # type: ignore[attr-defined]

    def _fitting(self, index: int) -> tuple[int, Row]:
        row = self.rows[index]
        if self.fit is None:
            return index, row
        for _ in range(len(self.rows)):
            fitted = self.fit(row)
            if fitted is not None:
                return index, fitted
            index = self.order.next(1)[0]
            row = self.rows[index]
        raise self.fit.none_fits(len(self.rows))


class Telling:
    """A grader that also tells the drawing what it found; evaluations have the grader alone."""

    def __init__(self, grader: Grader, drawing: Drawing) -> None:
        self._grader, self._drawing = grader, drawing

    def score(self, batch: Batch) -> dict[str, Any]:
        """Return what the grader gives."""
        written = self._grader.score(batch)
        first: dict[int, int] = {}
        for row, session in enumerate(batch["session"].tolist()):
            first.setdefault(session, row)  # a session's score stands on all its rows
        rows = list(first.values())
        self._drawing.observe(batch["group"][rows].tolist(), written["score"][rows].tolist())
        return written

    def greedy(self, batch: Batch, completions: dict[int, list[int]]) -> list[float]:
        """Return what the grader gives."""
        return self._grader.greedy(batch, completions)


@dataclass
class Loaded:
    """Everything heavy that a run holds.

    `decode` gives the text of sampled ids up to the first end token, `show` a prompt as the text that the model is
    given.
    """

    model: LanguageModel
    trainers: dict[str, TorchTrainer]
    sampler: Sampler
    rollout: Rollout
    manager: RewardManager
    grader: Grader
    executor: LocalExecutor
    drawing: Drawing
    heldout: list[Row]
    total_steps: int
    decode: Callable[[Sequence[int]], str]
    show: Callable[[Any], str]


def load(experiment: Experiment, progress: Progress, step: Callable[[], int]) -> Loaded:
    """Load models and data; `step` tells the step that a replay stands at. Raises what is wrong before models load."""
    settings = experiment.settings
    build.use_threads(settings.threads)
    problems = prepare(experiment)
    base = base_folder(experiment, progress)
    model, trainers = build.load_trainers(problems.graph, base, settings, steps_of(settings, len(problems.rows)))
    if said := left_out(problems.rows):
        progress.say(f"data: {len(problems.rows)} rows{said}")
    fit = Fitting(problems.rows.columns, model, settings) if isinstance(problems.rows, LazyRows) else None
    rows, dropped = build.fit_rows(problems.rows, model, settings) if fit is None else (problems.rows, 0)
    heldout = build.fit_rows(problems.heldout, model, settings)[0] if problems.heldout else []
    if dropped:
        progress.say(
            f"{dropped} of {len(problems.rows)} prompts are longer than max_prompt_tokens={settings.max_prompt_tokens} "
            f"and left out"
        )
    decode = partial(completion_text, model.tokenizer, eos_ids=model.eos_ids)
    show = partial(prompt_string, model.tokenizer)
    sampler = build.make_sampler(experiment.sampler, model, trainers.get("trainer"), settings)
    check_kept_mass(problems.graph.resolve(), settings.sampling, sampler)
    environment = experiment.environment()
    params = build.sampling_params(settings)
    rollout = Rollout(
        sampler, model.tokenizer, environment, params, settings.seed, decode, max_positions=model.max_positions,
        max_prompt_tokens=settings.max_prompt_tokens, long_prompts=settings.long_prompts, eos_ids=model.eos_ids,
    )  # fmt: skip
    source: Any = rollout
    if settings.replay is not None:
        source = Replayed(rollout, existing_run(settings.replay), step)
    grader = Grader(problems.manager, decode, show)
    drawing = Drawing(rows, make_order(experiment.order, rows, settings.seed), fit=fit)
    graded: Any = Telling(grader, drawing) if drawing.observes else grader
    executor = build.executor_of(
        problems.graph, rollout=source, grader=graded, trainers=trainers, algorithm=experiment.algorithm,
        settings=settings, draw=drawing, watch=_watch,
    )  # fmt: skip
    return Loaded(
        model=model, trainers=trainers, sampler=sampler, rollout=rollout, manager=problems.manager, grader=grader,
        executor=executor, drawing=drawing, heldout=heldout, total_steps=steps_of(settings, len(rows)), decode=decode,
        show=show,
    )  # fmt: skip


def _watch(step: int, node: str, seconds: float, rows: int) -> None:
    registry().notify("node_finished", step=step, node=node, seconds=seconds, rows=rows)
