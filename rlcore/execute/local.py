"""The local executor: runs a plan in one process, node after node.

It knows views and roles, never what a node computes: a row node is handed rows, an estimator sessions, a filter raw
rows; a forward, an update and a sync are asked of the role whose weights they name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch

from rlcore.batch import Batch, first_rows
from rlcore.calling import guarded
from rlcore.component import started
from rlcore.errors import GraphError, RunError, unknown
from rlcore.execute import border
from rlcore.execute.grade import Grader
from rlcore.execute.rollout import Rollout
from rlcore.graph import Graph, Node, Plan
from rlcore.metrics import Metrics
from rlcore.protocols import KeepsState, Trainer
from rlcore.seeding import stream


@dataclass(frozen=True)
class Limits:
    """The sizes and bounds of a run's steps.

    max_rounds: how often filters may refill within a step. when_starved: what becomes of a step that has too few groups
    even then: an error, no update, or one on the groups that there are (none: no update).
    """

    prompts: int
    group_size: int
    max_new_tokens: int
    temperature: float
    seed: int
    max_rounds: int = 10
    when_starved: Literal["error", "skip", "train"] = "error"


@dataclass
class Roles:
    """What a plan's weights stand for, and what draws and grades.

    `draw(n)` gives n (group id, data row) pairs; `sync(role)` makes a sampler hold its trainer's weights and returns
    the version.
    """

    trainers: Mapping[str, Trainer]
    rollout: Rollout
    grader: Grader
    draw: Callable[[int], list[tuple[int, Mapping[str, Any]]]]
    sync: Callable[[str], int]


@dataclass
class Outcome:
    """What a step leaves: its rows with every column, metrics, seconds per node, whether its updates were finite.

    `starved` says what too few groups made of the step; one that was skipped has no rows and ran no update.
    """

    batch: Batch
    metrics: Metrics
    seconds: dict[str, float]
    finite: bool
    drawn_tokens: int = 0
    rounds: int = 1
    starved: str = ""
    skipped: bool = False


def _ignore(step: int, node: str, seconds: float, rows: int) -> None:
    """Watch nothing."""


@dataclass
class LocalExecutor:
    """Runs the steps of a graph; `scalars` are the columns without dimensions, carried from step to step."""

    graph: Graph
    roles: Roles
    limits: Limits
    scalars: dict[str, Any]
    watch: Callable[[int, str, float, int], None] = _ignore
    skipped: int = 0
    _started: dict[str, Any] = field(default_factory=dict)
    _surplus: Batch | None = None

    def __post_init__(self) -> None:
        plan = self.graph.resolve()
        for role in plan.roles:
            holds = {*self.roles.trainers, *(n.role for n in plan.nodes if n.view in ("sample", "sync"))}
            if role not in holds:
                raise unknown("role", role, holds)
        # All of the list: a node that a full step prunes may stand in for one that rests.
        self._started = {n.name: _started(n) for n in self.graph.nodes if n.view in ("rows", "sessions", "filter")}

    def run_step(self, step: int, *, progress: float = 0.0) -> Outcome:
        """Run one step and return what it leaves. Raises RunError where a bound of the run is passed."""
        plan = self.graph.at(step)
        self.scalars |= {"progress": progress, "seed": stream(self.limits.seed, "step", step)}
        outcome = Outcome(Batch({}, table=plan.table), Metrics(), {}, True)
        outcome.batch = self._stream(plan, step, outcome)
        if outcome.skipped:
            return outcome
        for node in plan.step:
            self._run(node, plan, step, outcome)
        self.skipped = 0 if outcome.finite else self.skipped + 1
        return outcome

    # -- the stream part: drawn and refilled until enough groups are ready

    def _stream(self, plan: Plan, step: int, outcome: Outcome) -> Batch:
        ready = [self._surplus] if self._surplus is not None else []
        kept_groups = drawn_groups = rounds = 0
        refills = any(n.rows for n in plan.stream)
        piece = Outcome(Batch({}, table=plan.table), outcome.metrics, outcome.seconds, True)
        while (have := sum(map(_groups, ready))) < self.limits.prompts and rounds < self.limits.max_rounds:
            if rounds and not refills:
                break
            missing = self.limits.prompts - have
            piece = Outcome(Batch({}, table=plan.table), outcome.metrics, outcome.seconds, True)
            for node in plan.stream:
                self._run(node, plan, step, piece, draw=missing)
            outcome.drawn_tokens += piece.drawn_tokens
            rounds = outcome.rounds = rounds + 1
            drawn_groups += missing
            kept_groups += _groups(piece.batch)
            if len(piece.batch):
                ready.append(piece.batch)
        outcome.metrics.put("rollout/kept_groups", kept_groups / max(drawn_groups, 1), weight=drawn_groups)
        if have < self.limits.prompts:
            self._starve(plan, outcome, have, kept_groups, drawn_groups)
        # No rows, where there are none, of the columns that there would be.
        batch = Batch.concat(ready) if ready else piece.batch
        groups = list(dict.fromkeys(batch["group"].tolist()))
        wanted = 0 if outcome.skipped else self.limits.prompts
        taken = torch.isin(batch["group"], torch.tensor(groups[:wanted], dtype=torch.int64))
        rest = (~taken).nonzero().flatten()
        self._surplus = batch.take(rest) if rest.numel() else None
        return batch.take(taken.nonzero().flatten())

    def _starve(self, plan: Plan, outcome: Outcome, have: int, kept: int, drawn: int) -> None:
        """Say in the outcome what too few groups make of a step. Raises RunError where that is an error."""
        filters = ", ".join(n.name for n in plan.stream if n.rows)
        found = (
            f"after {outcome.rounds} rounds only {kept} of {drawn} drawn groups passed {filters or 'the rollout'} "
            f"({kept / max(drawn, 1):.0%}); {self.limits.prompts} are needed"
        )
        if self.limits.when_starved == "error" or not filters:
            raise RunError(
                f"{found}. Give prompts of which the policy solves some and not all, raise limits.max_rounds="
                f"{self.limits.max_rounds}, set limits.when_starved=skip or train, or drop the filter"
            )
        outcome.skipped = self.limits.when_starved == "skip" or not have
        done = (
            f"skipped, the {have} that there are wait" if outcome.skipped else f"trained on the {have} that there are"
        )
        outcome.starved = f"{found}; {done}"
        outcome.metrics.put("rollout/starved", 1.0, kind="sum")
        outcome.metrics.put("rollout/skipped", float(outcome.skipped), kind="sum")

    # -- one node

    def _run(self, node: Node, plan: Plan, step: int, outcome: Outcome, draw: int = 0) -> None:
        begin = time.perf_counter()
        if not len(outcome.batch) and node.view not in ("source", "sample", "sync"):
            # Nothing left: what would be written by this node on no rows is nothing.
            if node in plan.step and node.view == "update":
                raise RunError(f"no row is left for node {node.name!r} of step {step}: every group was filtered out")
            return
        self._views[node.view](self, node, plan, outcome, draw)
        seconds = time.perf_counter() - begin
        outcome.seconds[node.name] = outcome.seconds.get(node.name, 0.0) + seconds
        self.watch(step, node.name, seconds, len(outcome.batch))

    def _source(self, node: Node, plan: Plan, outcome: Outcome, draw: int) -> None:
        self._drawn = self.roles.draw(draw)

    def _sample(self, node: Node, plan: Plan, outcome: Outcome, draw: int) -> None:
        if not set(node.writes) >= {"tokens"}:
            self._sample_beside(node, outcome)
            return
        groups, rows = [g for g, _ in self._drawn], [r for _, r in self._drawn]
        outcome.batch = self.roles.rollout.draw(groups, rows, samples=self.limits.group_size, table=plan.table)
        outcome.drawn_tokens += int(outcome.batch.flat("sampled").sum())

    def _sample_beside(self, node: Node, outcome: Outcome) -> None:
        """Complete each prompt once, greedily, beside the rows that are there."""
        batch = outcome.batch
        first = first_rows(batch["group"])
        found = self.roles.rollout.greedy(list(first), [batch.data_of(row) for row in first.values()])
        outcome.batch = batch.assign({node.writes[0]: [found[g] for g in batch["group"].tolist()]})

    def _grade(self, node: Node, plan: Plan, outcome: Outcome, draw: int) -> None:
        batch = outcome.batch
        if "score" in node.writes:
            outcome.batch = batch.assign(self.roles.grader.score(batch))
            return
        read = next(
            r.name for r in node.reads if batch.table[r.name].dtype == "object" and not r.name.startswith("data.")
        )
        completions = dict(zip(batch["group"].tolist(), batch[read], strict=True))
        outcome.batch = batch.assign({node.writes[0]: torch.tensor(self.roles.grader.greedy(batch, completions))})

    def _filter(self, node: Node, plan: Plan, outcome: Outcome, draw: int) -> None:
        before = _groups(outcome.batch)
        rows = border.call_filter(node, self._started[node.name], outcome.batch, plan.reads_of(node), self.scalars)
        outcome.batch = _fresh_sessions(outcome.batch, rows)
        outcome.metrics.put(f"{node.name}/kept", _groups(outcome.batch) / max(before, 1), weight=before)

    def _forward(self, node: Node, plan: Plan, outcome: Outcome, draw: int) -> None:
        wanted = {c: r for c, r in node.call.wanted.items() if c in plan.wanted[node.name]}
        found = self._trainer(node).forward(renamed(outcome.batch, node), wanted, temperature=self.limits.temperature)
        outcome.batch = outcome.batch.assign(found)

    def _rows(self, node: Node, plan: Plan, outcome: Outcome, draw: int) -> None:
        written = border.call_on_rows(node, self._started[node.name], outcome.batch, plan.reads_of(node), self.scalars)
        outcome.metrics.merge(written.pop("metrics", Metrics()), prefix=f"{node.name}/")
        rows = written.pop("rows", None)
        if rows is not None:
            outcome.batch = _fresh_sessions(outcome.batch, rows)
        self._write(outcome, written)

    def _sessions(self, node: Node, plan: Plan, outcome: Outcome, draw: int) -> None:
        written = border.call_on_sessions(
            node, self._started[node.name], outcome.batch, plan.reads_of(node), self.scalars
        )
        self._write(outcome, written)

    def _write(self, outcome: Outcome, written: Mapping[str, Any]) -> None:
        table = outcome.batch.table
        self.scalars |= {name: value for name, value in written.items() if not table[name].dims}
        outcome.batch = outcome.batch.assign({name: value for name, value in written.items() if table[name].dims})

    def _update(self, node: Node, plan: Plan, outcome: Outcome, draw: int) -> None:
        result = self._trainer(node).update(
            border.trainable(renamed(outcome.batch, node)),
            node.call,
            seed=stream(self.scalars["seed"], node.name),
            temperature=self.limits.temperature,
            scalars=self.scalars,
            max_new_tokens=self.limits.max_new_tokens,
        )
        outcome.metrics.merge(result.metrics, prefix=f"{node.name}/")
        outcome.finite &= result.finite
        self.scalars[f"weights.{node.role}"] = self._trainer(node).version

    def _sync(self, node: Node, plan: Plan, outcome: Outcome, draw: int) -> None:
        self.scalars[f"weights.{node.role}"] = self.roles.sync(node.role)

    def _trainer(self, node: Node) -> Trainer:
        if node.role not in self.roles.trainers:
            raise unknown("role", node.role, self.roles.trainers)
        return self.roles.trainers[node.role]

    _views: ClassVar[dict[str, Callable[..., None]]] = {
        "source": _source, "sample": _sample, "grade": _grade, "filter": _filter, "forward": _forward,
        "rows": _rows, "sessions": _sessions, "update": _update, "sync": _sync,
    }  # fmt: skip

    # -- what a resumed run needs

    def state_dict(self) -> dict[str, Any]:
        """Return carried values, the state of stateful components, and groups that wait for the next step."""
        states = {name: call.state_dict() for name, call in self._started.items() if isinstance(call, KeepsState)}
        return {
            "scalars": dict(self.scalars),
            "components": states,
            "skipped": self.skipped,
            "surplus": _packed(self._surplus),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up a saved state. Raises GraphError if it holds a component that this graph has not."""
        for name, saved in state["components"].items():
            component = self._started.get(name)
            if not isinstance(component, KeepsState):
                raise GraphError(f"the saved state holds that of component {name!r}, which this graph does not have")
            component.load_state_dict(saved)
        self.scalars = dict(state["scalars"])
        self.skipped = int(state["skipped"])
        self._surplus = Batch(state["surplus"], table=self.graph.table) if state["surplus"] is not None else None


def renamed(batch: Batch, node: Node) -> Batch:
    """Return the batch as a role sees it: a node may take another column under a name (one policy's mask of two)."""
    return batch.assign({name: batch.stored(column) for name, column in node.columns.items() if column in batch})


def _started(node: Node) -> Any:
    with guarded(node.call, f"node {node.name!r}"):
        return started(node.call)


def _groups(batch: Batch) -> int:
    return len(torch.unique(batch["group"])) if len(batch) else 0


def _packed(batch: Batch | None) -> dict[str, Any] | None:
    return {name: batch.stored(name) for name in batch.names} if batch is not None else None


def _fresh_sessions(batch: Batch, rows: torch.Tensor) -> Batch:
    """Take rows; a row that is taken again belongs to a session of its own, since it is trained on again."""
    taken = batch.take(rows)
    if "session" not in taken or len(torch.unique(rows)) == len(rows):
        return taken
    copy: dict[int, int] = {}
    numbers, largest = [], int(batch["session"].max()) + 1
    for row in rows.tolist():
        copy[row] = copy.get(row, -1) + 1
        numbers.append(copy[row])
    session = taken["session"] + torch.tensor(numbers) * largest
    return taken.assign({"session": session})
