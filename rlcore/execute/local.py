"""The local executor: runs a plan in one process, node after node.

It knows views and roles, never what a node computes: a row node is handed rows, an estimator sessions, a filter raw
rows; a forward, an update and a sync are asked of the role whose weights they name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from rlcore.batch import Batch, first_row_by_id
from rlcore.calling import guarded
from rlcore.columns import ColumnTable
from rlcore.component import started
from rlcore.errors import GraphError, RunError, counted, unknown
from rlcore.execute import adapters
from rlcore.execute.grader import Grader
from rlcore.execute.rollout import Rollout
from rlcore.graph import Graph, Node, Plan
from rlcore.metrics import Metrics
from rlcore.protocols import KeepsState, Trainer
from rlcore.seeding import stream


@dataclass(frozen=True)
class StepSizes:
    """The sizes and bounds of a run's steps.

    max_rounds: how many rounds of sampling a step may take until its filters have left enough groups.
    when_underfilled: what follows if they leave fewer than `prompts` groups even then. `error` stops the run; `skip`
        keeps the groups for the next step; `train` updates on the groups there are, and skips where there are none.
    """

    prompts: int
    group_size: int
    max_new_tokens: int
    temperature: float
    seed: int
    max_rounds: int = 10
    when_underfilled: Literal["error", "skip", "train"] = "error"


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
class StepResult:
    """What a step leaves: its rows with every column, metrics, seconds per node, whether its updates were finite.

    `underfilled` says what too few groups made of the step; one that was skipped has no rows and ran no update.
    `drawn_tokens` are those that the policy sampled, in all rounds.
    """

    batch: Batch
    metrics: Metrics
    seconds: dict[str, float]
    finite: bool
    drawn_tokens: int = 0
    rounds: int = 1
    underfilled: str = ""
    skipped: bool = False
    step: int = 0


@dataclass(frozen=True)
class RolloutRows:
    """The rows of one round on their way through the nodes, and the (group id, data row) pairs they are drawn for."""

    batch: Batch
    prompts: Sequence[tuple[int, Mapping[str, Any]]] = ()


def _ignore(step: int, node: str, seconds: float, rows: int) -> None:
    """Watch nothing."""


@dataclass
class LocalExecutor:
    """Runs the steps of a graph; `scalars` are the columns without dimensions, carried from step to step."""

    graph: Graph
    roles: Roles
    sizes: StepSizes
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

    def run_step(self, step: int, *, progress: float = 0.0) -> StepResult:
        """Run one step and return what it leaves. Raises RunError where a bound of the run is passed.

        `progress` is the share of the run's steps that are done.
        """
        plan = self.graph.at(step)
        self.scalars |= {"progress": progress, "seed": stream(self.sizes.seed, "step", step)}
        result = StepResult(Batch({}, table=plan.table), Metrics(), {}, True, step=step)
        # Prompts -> rollout -> reward -> filter, again until there are enough groups.
        result.batch = self._rollout_stage(plan, result)
        if result.skipped:
            return result
        # Old log-probabilities -> advantage -> update -> sync, on all groups together.
        for node in plan.learning_stage:
            result.batch = self._run(node, plan, result, RolloutRows(result.batch)).batch
        self.skipped = 0 if result.finite else self.skipped + 1
        return result

    def _rollout_stage(self, plan: Plan, result: StepResult) -> Batch:
        """Return the rows of as many groups as a step needs; what is left over waits for the next step."""
        ready = [self._surplus] if self._surplus is not None else []
        batch = Batch({}, table=plan.table)
        kept = drawn = rounds = 0
        most = self.sizes.max_rounds if any(node.rows for node in plan.rollout_stage) else 1
        while (have := sum(map(_groups, ready))) < self.sizes.prompts and rounds < most:
            missing = self.sizes.prompts - have
            batch = self._round(plan, result, missing)
            rounds = result.rounds = rounds + 1
            drawn += missing
            kept += _groups(batch)
            if len(batch):
                ready.append(batch)
        result.metrics.put("rollout/kept_groups", kept / max(drawn, 1), weight=drawn)
        if have < self.sizes.prompts:
            self._underfilled(plan, result, have, kept, drawn)
        # Without any rows: none, of the columns that there would be.
        batch = Batch.concat(ready) if ready else batch
        groups = list(dict.fromkeys(batch["group"].tolist()))
        wanted = 0 if result.skipped else self.sizes.prompts
        taken = torch.isin(batch["group"], torch.tensor(groups[:wanted], dtype=torch.int64))
        rest = (~taken).nonzero().flatten()
        self._surplus = batch.take(rest) if rest.numel() else None
        return batch.take(taken.nonzero().flatten())

    def _round(self, plan: Plan, result: StepResult, groups: int) -> Batch:
        """Return the rows that so many newly drawn groups leave after the rollout stage."""
        rows = RolloutRows(Batch({}, table=plan.table))
        for node in plan.rollout_stage:
            rows = self._run(node, plan, result, rows, groups)
        return rows.batch

    def _underfilled(self, plan: Plan, result: StepResult, have: int, kept: int, drawn: int) -> None:
        """Note in the result what too few groups make of a step. Raises RunError where that is an error."""
        filters = ", ".join(node.name for node in plan.rollout_stage if node.rows)
        found = (
            f"after {counted(result.rounds, 'round')} only {kept} of {drawn} drawn groups passed "
            f"{filters or 'the rollout'} ({kept / max(drawn, 1):.0%}); {self.sizes.prompts} are needed"
        )
        if self.sizes.when_underfilled == "error" or not filters:
            raise RunError(
                f"{found}. Give prompts of which the policy solves some and not all, raise limits.max_rounds="
                f"{self.sizes.max_rounds}, set limits.when_underfilled=skip or train, or drop the filter"
            )
        result.skipped = self.sizes.when_underfilled == "skip" or not have
        done = f"skipped, the {have} that there are wait" if result.skipped else f"trained on the {have} that there are"
        result.underfilled = f"{found}; {done}"
        result.metrics.put("rollout/underfilled", 1.0, kind="sum")
        result.metrics.put("rollout/skipped", float(result.skipped), kind="sum")

    # -- one node: each view is handed what it uses, and gives rows or a number back

    def _run(self, node: Node, plan: Plan, result: StepResult, rows: RolloutRows, groups: int = 0) -> RolloutRows:
        """Return the rows after a node, which is timed and watched; where no rows are left there is nothing to do."""
        if not len(rows.batch) and node.view not in ("source", "sample", "sync"):
            if node.view == "update":
                raise RunError(
                    f"no row is left for node {node.name!r} of step {result.step}: every group was filtered out"
                )
            return rows
        begin = time.perf_counter()
        rows = self._call(node, plan, result, rows, groups)
        seconds = time.perf_counter() - begin
        result.seconds[node.name] = result.seconds.get(node.name, 0.0) + seconds
        self.watch(result.step, node.name, seconds, len(rows.batch))
        return rows

    def _call(self, node: Node, plan: Plan, result: StepResult, rows: RolloutRows, groups: int) -> RolloutRows:
        batch, reads = rows.batch, plan.available_reads(node)
        match node.view:
            case "source":
                return replace(rows, prompts=self.roles.draw(groups))
            case "sample" if "tokens" in node.writes:
                batch = self._sample(rows.prompts, plan.table)
                result.drawn_tokens += int(batch.flat("sampled").sum())
            case "sample":
                batch = self._sample_greedily(node, batch)
            case "grade" if "score" in node.writes:
                batch = batch.assign(self.roles.grader.score(batch))
            case "grade":
                batch = self._grade_greedy(node, batch)
            case "filter":
                batch = self._filter(node, batch, reads, result.metrics)
            case "forward":
                batch = self._forward(node, batch, plan.wanted[node.name])
            case "rows":
                batch = self._call_on_rows(node, batch, reads, result.metrics)
            case "sessions":
                written = adapters.call_on_sessions(node, self._started[node.name], batch, reads, self.scalars)
                batch = self._write(batch, written)
            case "update":
                result.finite &= self._update(node, batch, result.metrics)
            case "sync":
                self.scalars[f"weights.{node.role}"] = self.roles.sync(node.role)
        return replace(rows, batch=batch)

    def _sample(self, prompts: Sequence[tuple[int, Mapping[str, Any]]], table: ColumnTable) -> Batch:
        """Return `group_size` rows for each drawn prompt."""
        groups, data = [group for group, _ in prompts], [row for _, row in prompts]
        return self.roles.rollout.draw(groups, data, samples=self.sizes.group_size, table=table)

    def _sample_greedily(self, node: Node, batch: Batch) -> Batch:
        """Return the batch with a greedy completion of each row's prompt, one a group."""
        first = first_row_by_id(batch["group"])
        found = self.roles.rollout.greedy(list(first), [batch.data_row(row) for row in first.values()])
        return batch.assign({node.writes[0]: [found[group] for group in batch["group"].tolist()]})

    def _grade_greedy(self, node: Node, batch: Batch) -> Batch:
        """Return the batch with the score of each row's greedy completion."""
        column = next(
            read.name
            for read in node.reads
            if batch.table[read.name].dtype == "object" and not read.name.startswith("data.")
        )
        completions = dict(zip(batch["group"].tolist(), batch[column], strict=True))
        return batch.assign({node.writes[0]: torch.tensor(self.roles.grader.greedy(batch, completions))})

    def _filter(self, node: Node, batch: Batch, reads: tuple[str, ...], metrics: Metrics) -> Batch:
        before = _groups(batch)
        rows = adapters.call_filter(node, self._started[node.name], batch, reads, self.scalars)
        batch = _fresh_sessions(batch, rows)
        metrics.put(f"{node.name}/kept", _groups(batch) / max(before, 1), weight=before)
        return batch

    def _forward(self, node: Node, batch: Batch, wanted: frozenset[str]) -> Batch:
        readouts = {column: readout for column, readout in node.call.wanted.items() if column in wanted}
        trainer = self._trainer(node)
        return batch.assign(trainer.forward(renamed(batch, node), readouts, temperature=self.sizes.temperature))

    def _call_on_rows(self, node: Node, batch: Batch, reads: tuple[str, ...], metrics: Metrics) -> Batch:
        written = adapters.call_on_rows(node, self._started[node.name], batch, reads, self.scalars)
        metrics.merge(written.pop("metrics", Metrics()), prefix=f"{node.name}/")
        rows = written.pop("rows", None)
        return self._write(batch if rows is None else _fresh_sessions(batch, rows), written)

    def _write(self, batch: Batch, written: Mapping[str, Any]) -> Batch:
        """Return the batch with what a component wrote; columns without dimensions are carried from step to step."""
        table = batch.table
        self.scalars |= {name: value for name, value in written.items() if not table[name].dims}
        return batch.assign({name: value for name, value in written.items() if table[name].dims})

    def _update(self, node: Node, batch: Batch, metrics: Metrics) -> bool:
        """Update a role's weights; return whether every optimizer update was finite."""
        trainer = self._trainer(node)
        updated = trainer.update(
            adapters.trainable_batch(renamed(batch, node)),
            node.call,
            seed=stream(self.scalars["seed"], node.name),
            temperature=self.sizes.temperature,
            scalars=self.scalars,
            max_new_tokens=self.sizes.max_new_tokens,
        )
        metrics.merge(updated.metrics, prefix=f"{node.name}/")
        self.scalars[f"weights.{node.role}"] = trainer.version
        return updated.finite

    def _trainer(self, node: Node) -> Trainer:
        if node.role not in self.roles.trainers:
            raise unknown("role", node.role, self.roles.trainers)
        return self.roles.trainers[node.role]

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
        """Restore a saved state. Raises GraphError if it holds a component that this graph has not."""
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
