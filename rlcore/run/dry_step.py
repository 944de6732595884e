"""A dry step: one step of the whole graph on a few made-up rows, without a model.

It finds, in milliseconds and before anything is loaded, options out of bounds, results of a wrong shape, and columns
that do not fit together.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rlcore.batch import Batch
from rlcore.columns import ROW, ColumnTable
from rlcore.data import Row, RowEncoder, TokenRow, answer_text, check_answered
from rlcore.errors import ComponentError, RunError, unknown
from rlcore.execute.local import LocalExecutor, Roles, StepResult, StepSizes
from rlcore.execute.rollout import Session, sessions_batch
from rlcore.graph import NODE_KINDS, Graph
from rlcore.math.reduce import Counts
from rlcore.metrics import Metrics
from rlcore.protocols import Completion, GraphSource, Stop, Update, UpdateResult
from rlcore.settings import Settings
from rlcore.shapes import checking
from rlcore.train.forward import REFERENCE_READOUTS, reference_readout
from rlcore.train.head import VALUE
from rlcore.train.update import rows_view, trained_mask
from rlcore.train.update_plan import check_terms, check_trains, plan_update

PROMPT, LONGEST = 3, 5
"""Tokens of a made-up prompt, and of the longest made-up completion."""
SOON = 1000
"""How many steps are searched for one in which every node is active."""


class DryEncoder(RowEncoder):
    """Takes the place of an encoder: ids are made up, and what a row lacks is found as it would be with a tokenizer."""

    def __init__(self) -> None:
        super().__init__(None)

    def completion(self, row: Row) -> TokenRow:
        """Return made-up ids for a row that has a completion, or messages with an answer."""
        check_answered(row)
        return _made_up(LONGEST)

    def answer(self, row: Row, answer: Any) -> TokenRow:
        """Return made-up ids for an answer."""
        return _made_up(2 + len(answer_text(answer)) % (LONGEST - 1))

    def scored(self, row: Row, answer: Any) -> list[int]:
        """Return made-up ids for an answer."""
        return self.answer(row, answer).tokens


def _made_up(count: int) -> TokenRow:
    return TokenRow([1] * (PROMPT + count), [False] * PROMPT + [True] * count, PROMPT)


@dataclass
class DryRollout:
    """Takes the place of the rollout: rows of made-up tokens, some finished and some truncated."""

    live: ClassVar[bool] = False

    sampler: Any = None
    columns: tuple[str, ...] = ()

    def draw(
        self, groups: Sequence[int], rows: Sequence[Mapping[str, Any]], *, samples: int, table: ColumnTable
    ) -> Batch:
        """Return `samples` rows a prompt, of two to five drawn tokens."""
        drawn = {column.name: column.drawn for column in table.values() if column.drawn}
        sessions = []
        for number in range(len(groups) * samples):
            count = number % (LONGEST - 1) + 2
            session = Session(groups[number // samples], number, (), rows[number // samples], drawn)
            session.begin_row([1] * PROMPT)
            stop = Stop.LENGTH if count == LONGEST else Stop.FINISHED
            session.take(Completion([1] * count, [-0.5] * count, [0.0] * count, stop, [0] * count), "made up")
            sessions.append(session)
        return sessions_batch(sessions, table, self.columns)

    def greedy(self, groups: Sequence[int], rows: Sequence[Mapping[str, Any]]) -> dict[int, list[int]]:
        """Return one made-up token a prompt."""
        return {group: [1] for group in groups}


class DryGrader:
    """Takes the place of the grader: scores 0 and 1 in turn, so that the scores of a group differ."""

    def score(self, batch: Batch) -> dict[str, Any]:
        """Return `score` [B]."""
        return {"score": (torch.arange(len(batch)) % 2).float()}

    def greedy(self, batch: Batch, completions: Mapping[int, list[int]]) -> list[float]:
        """Return a score per row."""
        return [0.5] * len(batch)


@dataclass
class DryTrainer:
    """Takes the place of a trainer, without weights: readouts are -0.5, and an update runs its terms once."""

    readouts: frozenset[str]
    version: int = 0
    frozen: bool = False

    def weights(self) -> dict[str, Tensor]:
        """Return nothing."""
        return {}

    def forward(self, batch: Batch, wanted: Mapping[str, str], *, temperature: float) -> dict[str, Tensor]:
        """Return constants where `sampled` is on."""
        self._check(wanted.values())
        on = batch.flat("sampled").float()
        return {c: torch.full((len(batch),), -0.5) if batch.table[c].dims == ROW else -0.5 * on for c in wanted}

    def _check(self, readouts: Iterable[str]) -> None:
        for readout in readouts:
            of_two = "full_kl" in self.readouts and reference_readout(readout) is not None
            if readout not in self.readouts and not of_two:
                raise unknown("readout of this trainer", readout, self.readouts)

    def update(
        self, batch: Batch, update: Update, *, scalars: Mapping[str, float], max_new_tokens: int, **_: Any
    ) -> UpdateResult:
        """Run every term once."""
        plan = plan_update(update, batch.table)
        self._check((*plan.readouts, *plan.select_current.values()))
        mask = trained_mask(batch)
        zeros = torch.full((int(mask.sum()),), -0.5)
        live = dict.fromkeys((*plan.current, *plan.provides), zeros)
        live |= {name: zeros > 0 if batch.table[name].dtype == "bool" else zeros for name in plan.selected}
        view = rows_view(batch, mask, live=live, scalars=scalars, device=torch.device("cpu"))
        counts = Counts.of(batch.pad(mask), batch["group"], max_new_tokens)
        check_terms(plan, view, counts=counts)
        live |= {name: zeros.clone().requires_grad_() for name in plan.current}
        moving = rows_view(batch, mask, live=live, scalars=scalars, device=torch.device("cpu"))
        check_trains(plan, moving, counts=counts)
        return UpdateResult(Metrics(), True)


class DryExecutor(LocalExecutor):
    """The executor of a dry step: made-up rows are finite, so a node that writes NaN or infinity is an error."""

    def _write(self, batch: Batch, written: Mapping[str, Any], result: StepResult) -> Batch:
        for name, value in written.items():
            if isinstance(value, (Tensor, float)) and not bool(torch.isfinite(torch.as_tensor(value)).all()):
                by = " or ".join(repr(n.name) for n in self.graph.nodes if n.writes_column(name))
                raise ComponentError(f"node {by} gave {name!r} with NaN or infinity on finite made-up rows")
        return super()._write(batch, written, result)


def dry_step(
    graph: Graph, algorithm: GraphSource, settings: Settings, rows: Sequence[Mapping[str, Any]], readouts: Sequence[str]
) -> None:
    """Run one step of a graph on made-up rows. Raises what a run would raise for components that do not fit."""
    plan = graph.resolve()
    if any(n.reads_column("score_components") for n in plan.nodes):
        # How many components a score has is known only when the reward has been called.
        return
    heads = {n.role: set(n.call.wanted.values()) for n in plan.nodes if n.view == "forward"}
    for n in plan.nodes:
        if n.view == "update" and plan_update(n.call, plan.table).readouts == (VALUE,):
            heads.setdefault(n.role, set()).add(VALUE)
    comparing = {n.role for n in plan.nodes if n.view == "update" and n.reference_roles}
    trainers = {}
    for role in plan.roles:
        # A role of which a value is read has a value head and no other readout.
        of_logits = {*readouts, *(REFERENCE_READOUTS if role in comparing else ())}
        trainers[role] = DryTrainer(frozenset({VALUE} if VALUE in heads.get(role, ()) else of_logits))
    group = itertools.count()
    rollouts = [node for node in plan.nodes if node.view == "sample" and "tokens" in node.writes]
    written = tuple(c for node in rollouts for c in node.writes if c not in NODE_KINDS["rollout"].writes)
    roles = Roles(
        trainers=trainers,  # type: ignore[arg-type]
        rollout=DryRollout(columns=written),  # type: ignore[arg-type]
        grader=DryGrader(),  # type: ignore[arg-type]
        draw=lambda count: [(next(group), rows[i % len(rows)]) for i in range(count)],
        sync=lambda role: 0,
        encode=DryEncoder(),
    )
    sizes = StepSizes(
        prompts=min(settings.prompts, 2 * algorithm.minibatches),
        group_size=algorithm.group_size,
        max_new_tokens=settings.max_new_tokens,
        temperature=settings.sampling.temperature,
        seed=settings.seed,
        max_rounds=1,
    )
    executor = DryExecutor(graph, roles, sizes, dict(algorithm.initial))
    # The first step in which every node is active, if there is one soon.
    step = next((s for s in range(SOON) if all(n.active is None or n.active(s) for n in plan.nodes)), 0)
    # A filter may drop every made-up group: then nothing more can be checked without real rows.
    with contextlib.suppress(RunError), checking():
        executor.run_step(step)
