"""The local executor: runs a plan in one process, node after node.

It knows views and roles, never what a node computes: a row node is handed rows, an estimator sessions, a filter raw
rows; a forward, an update and a sync are asked of the role whose weights they name.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from rlcore.batch import Batch, first_row_by_id
from rlcore.calling import guarded
from rlcore.columns import ColumnTable
from rlcore.component import started
from rlcore.data import RowEncoder
from rlcore.errors import GraphError, RunError, counted, unknown
from rlcore.event_loop import wait_for
from rlcore.execute import adapters
from rlcore.execute.ahead import Ledger, RolloutsAhead
from rlcore.execute.grader import Grader
from rlcore.execute.rollout import Rollout
from rlcore.graph import Graph, Node, Plan
from rlcore.metrics import Metrics
from rlcore.protocols import KeepsState, MeasuresLoss, Trainer
from rlcore.seeding import stream


@dataclass(frozen=True)
class StepSizes:
    """The sizes and bounds of a run's steps.

    total_steps: of the run; no rollout runs ahead of the last of them.
    max_weight_age: by how many updates the weights that draw a row may be older than those that are trained on it. 0:
        rollout and update take turns; above it rollouts of the next steps run beside the update.
    deterministic: weights change only between the rollouts of two steps, so that two runs are equal bit for bit.
    max_rounds: how many rounds of sampling a step may take until its filters have left enough groups.
    when_underfilled: what follows if they leave fewer than `prompts` groups even then. `error` stops the run; `skip`
        keeps the groups for the next step; `train` updates on the groups there are, and skips where there are none.
    """

    prompts: int
    group_size: int
    max_new_tokens: int
    temperature: float
    seed: int
    total_steps: int = 0
    max_weight_age: int = 0
    deterministic: bool = False
    max_rounds: int = 10
    when_underfilled: Literal["error", "skip", "train"] = "error"


@dataclass
class Roles:
    """What a plan's weights stand for, and what draws and grades.

    `draw(n)` gives n (group id, data row) pairs; `sync(role)` makes a sampler hold its trainer's weights and returns
    the version. `encode` turns data rows into ids, in a graph whose rows come from the data set and not from a rollout;
    such a graph asks for no rollout and no grader.
    """

    trainers: Mapping[str, Trainer]
    rollout: Rollout
    grader: Grader
    draw: Callable[[int], list[tuple[int, Mapping[str, Any]]]]
    sync: Callable[[str], int]
    encode: RowEncoder | None = None


@dataclass
class StepResult:
    """What a step leaves: its rows with every column, metrics, seconds per node, whether its updates were finite.

    `underfilled` says what too few groups made of the step; one that was skipped has no rows and ran no update.
    `drawn_tokens` are those that the policy sampled, in all rounds; `ledger` are the groups of its rollout stage, which
    count once that has ended well. `scalars` are the columns without dimensions as
    its nodes see them, `written` those that its own nodes wrote.
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
    scalars: dict[str, Any] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)

    def write(self, values: Mapping[str, Any]) -> None:
        """Note columns without dimensions, for the nodes that follow and for the steps after this one."""
        self.scalars |= values
        self.written |= values


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
    ledger: Ledger = field(default_factory=Ledger)
    _started: dict[str, Any] = field(default_factory=dict)
    _surplus: Batch | None = None
    _ahead: RolloutsAhead = field(init=False)

    def __post_init__(self) -> None:
        plan = self.graph.resolve()
        for role in plan.roles:
            holds = {*self.roles.trainers, *(n.role for n in plan.nodes if n.view in ("sample", "sync"))}
            if role not in holds:
                raise unknown("role", role, holds)
        # All of the list: a node that a full step prunes may stand in for one that rests.
        self._started = {
            n.name: _started(n) for n in self.graph.nodes if n.view in ("rows", "sessions", "filter", "encode")
        }
        self._sampler_version = f"weights.{next(iter(plan.sampler_roles), 'sampler')}"
        self._ahead = RolloutsAhead(self._roll_out, self.sizes.total_steps, self.sizes.max_weight_age)

    def run_step(self, step: int, *, progress: float = 0.0) -> StepResult:
        """Run one step and return what it leaves. Raises RunError where a bound of the run is passed.

        `progress` is the share of the run's steps that are done.
        """
        result: StepResult
        result = self._ahead.take(step) if self.sizes.max_weight_age else self._roll_out(step, progress)
        self._learn(result)
        return result

    def _roll_out(self, step: int, progress: float | None = None) -> StepResult:
        """Return a step after its rollout stage: prompts -> rollout -> reward -> filter, until there are enough groups.

        It may run in a thread of its own, beside the learning stage of an earlier step.
        """
        plan = self.graph.at(step)
        result = StepResult(Batch({}, table=plan.table), Metrics(), {}, True, step=step)
        drawn = self._drawn_so_far() if self.sizes.max_weight_age else None
        try:
            self._run_rollout_stage(plan, result, progress)
        except BaseException:
            if drawn is not None:
                # A checkpoint that is still written is one before this stage: its prompts are drawn again.
                self._draw_again_from(drawn)
            raise
        self.ledger.merge(result.ledger)
        return result

    def _drawn_so_far(self) -> dict[str, Any]:
        draw: Any = self.roles.draw
        states = {name: copy.deepcopy(c.state_dict()) for name, c in self._started.items() if isinstance(c, KeepsState)}
        return {
            "draw": copy.deepcopy(draw.state_dict()) if isinstance(draw, KeepsState) else None,
            "surplus": self._surplus,
            "states": states,
        }

    def _draw_again_from(self, drawn: Mapping[str, Any]) -> None:
        draw: Any = self.roles.draw
        if drawn["draw"] is not None:
            draw.load_state_dict(drawn["draw"])
        self._surplus = drawn["surplus"]
        for name, state in drawn["states"].items():
            self._started[name].load_state_dict(state)

    def _run_rollout_stage(self, plan: Plan, result: StepResult, progress: float | None) -> None:
        step = result.step
        if progress is None:
            progress = step / max(self.sizes.total_steps, 1)
        own = {"progress": progress, "seed": stream(self.sizes.seed, "step", step)}
        result.scalars = {**self.scalars, **own}
        result.written = own
        result.batch = self._rollout_stage(plan, result)

    def _learn(self, result: StepResult) -> None:
        """Run the learning stage: old log-probabilities -> advantage -> update -> sync, on all groups together."""
        plan = self.graph.at(result.step)
        # What earlier steps wrote since the rollout began, and what this one's rollout wrote itself.
        result.scalars = {**self.scalars, **result.written}
        if not result.skipped:
            self._measure_age(result)
            begun = set(result.batch["group"].tolist())
            for node in plan.learning_stage:
                result.batch = self._run(node, plan, result, RolloutRows(result.batch)).batch
            trained = set(result.batch["group"].tolist())
            self.ledger.drop("filters of the whole batch", len(begun - trained))
            if result.finite:
                self.ledger.trained += len(trained)
            else:
                self.ledger.drop("updates that were not finite", len(trained))
            self.skipped = 0 if result.finite else self.skipped + 1
        self.scalars = {**self.scalars, **result.written}

    def _measure_age(self, result: StepResult) -> None:
        """Report by how many updates the rows' weights are older than the trainer's, where they may be."""
        current = result.scalars.get(self._sampler_version)
        if self.sizes.max_weight_age and current is not None:
            age = current - _oldest_version(result.batch, current)
            result.metrics.add("rollout/age_mean", age)
            result.metrics.add("rollout/age_max", age, kind="max")

    def _rollout_stage(self, plan: Plan, result: StepResult) -> Batch:
        """Return the rows of as many groups as a step needs; what is left over waits for the next step."""
        ready = [self._surplus] if self._surplus is not None else []
        batch = Batch({}, table=plan.table)
        kept = drawn = rounds = 0
        most = self.sizes.max_rounds if any(node.rows for node in plan.rollout_stage) else 1
        while (have := sum(map(_groups, ready))) < self.sizes.prompts and rounds < most:
            missing = self.sizes.prompts - have
            result.ledger.drawn += missing
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
        batch = Batch.concat(_same_components(ready)) if ready else batch
        groups = list(dict.fromkeys(batch["group"].tolist()))
        wanted = 0 if result.skipped else self.sizes.prompts
        taken = torch.isin(batch["group"], torch.tensor(groups[:wanted], dtype=torch.int64))
        rest = (~taken).nonzero().flatten()
        self._surplus = batch.take(rest) if rest.numel() else None
        return batch.take(taken.nonzero().flatten())

    def _round(self, plan: Plan, result: StepResult, groups: int) -> Batch:
        """Return the rows that so many newly drawn groups leave after the rollout stage."""
        rows = RolloutRows(Batch({}, table=plan.table))
        left = groups
        for node in plan.rollout_stage:
            rows = self._run(node, plan, result, rows, groups)
            if rows.prompts and "group" in rows.batch:
                result.ledger.count(f"node {node.name!r}", left, left := _groups(rows.batch))
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
        if not len(rows.batch) and node.view not in ("source", "sample", "encode", "sync"):
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
            case "encode":
                assert self.roles.encode is not None
                batch = adapters.call_on_data(
                    node, self._started[node.name], self.roles.encode, rows.prompts, plan.table
                )
            case "sample" if "tokens" in node.writes:
                batch = self._sample(rows.prompts, plan.table)
                self._check_version(batch, result)
                result.drawn_tokens += int(batch.flat("sampled").sum())
            case "sample":
                batch = self._sample_greedily(node, batch)
            case "grade" if "score" in node.writes:
                batch = batch.assign(self.roles.grader.score(batch))
            case "grade":
                batch = self._grade_greedy(node, batch)
            case "filter":
                batch = self._filter(node, batch, reads, result)
            case "forward":
                batch = self._forward(node, batch, plan.wanted[node.name])
            case "rows":
                batch = self._call_on_rows(node, batch, reads, result)
            case "sessions":
                written = adapters.call_on_sessions(node, self._started[node.name], batch, reads, result.scalars)
                batch = self._write(batch, written, result)
            case "update":
                result.finite &= self._update(node, batch, result)
            case "sync":
                with self._weights_may_change(result.step):
                    result.write({f"weights.{node.role}": self.roles.sync(node.role)})
        return replace(rows, batch=batch)

    def _sample(self, prompts: Sequence[tuple[int, Mapping[str, Any]]], table: ColumnTable) -> Batch:
        """Return `group_size` rows for each drawn prompt."""
        groups, data = [group for group, _ in prompts], [row for _, row in prompts]
        return self.roles.rollout.draw(groups, data, samples=self.sizes.group_size, table=table)

    def _check_version(self, batch: Batch, result: StepResult) -> None:
        """Raise RunError for rows that older weights drew than the sampler was given when their rollout began."""
        given = result.scalars.get(self._sampler_version)
        if given is None or not self.roles.rollout.live or not len(batch):
            return
        oldest = int(_oldest_version(batch, given).min())
        if oldest < given:
            raise RunError(
                f"step {result.step + 1}: the sampler was given the weights of version {given}, and a row says that "
                f"version {oldest} drew it"
            )

    def _sample_greedily(self, node: Node, batch: Batch) -> Batch:
        """Return the batch with a greedy completion of each row's prompt, one a group."""
        first = first_row_by_id(batch["group"])
        found: Mapping[int, Any] = self.roles.rollout.greedy(
            list(first), [batch.data_row(row) for row in first.values()]
        )
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

    def _filter(self, node: Node, batch: Batch, reads: tuple[str, ...], result: StepResult) -> Batch:
        before = _groups(batch)
        rows = adapters.call_filter(node, self._started[node.name], batch, reads, result.scalars)
        batch = _fresh_sessions(batch, rows)
        result.metrics.put(f"{node.name}/kept", _groups(batch) / max(before, 1), weight=before)
        return batch

    def _forward(self, node: Node, batch: Batch, wanted: frozenset[str]) -> Batch:
        readouts = {column: readout for column, readout in node.call.wanted.items() if column in wanted}
        trainer = self._trainer(node)
        return batch.assign(trainer.forward(renamed(batch, node), readouts, temperature=self.sizes.temperature))

    def _call_on_rows(self, node: Node, batch: Batch, reads: tuple[str, ...], result: StepResult) -> Batch:
        written = adapters.call_on_rows(node, self._started[node.name], batch, reads, result.scalars)
        result.metrics.merge(written.pop("metrics", Metrics()), prefix=f"{node.name}/")
        rows = written.pop("rows", None)
        return self._write(batch if rows is None else _fresh_sessions(batch, rows), written, result)

    def _write(self, batch: Batch, written: Mapping[str, Any], result: StepResult) -> Batch:
        """Return the batch with what a component wrote; columns without dimensions are carried from step to step."""
        table = batch.table
        result.write({name: value for name, value in written.items() if not table[name].dims})
        return batch.assign({name: value for name, value in written.items() if table[name].dims})

    def _update(self, node: Node, batch: Batch, result: StepResult) -> bool:
        """Update a role's weights; return whether every optimizer update was finite."""
        trainer = self._trainer(node)
        trained = adapters.trainable_batch(renamed(batch, node))
        updated = trainer.update(trained, node.call, **self._setting(node, result))
        result.metrics.merge(updated.metrics, prefix=f"{node.name}/")
        result.write({f"weights.{node.role}": trainer.version})
        return updated.finite

    def _setting(self, node: Node, result: StepResult) -> dict[str, Any]:
        """Return what a trainer is told for an update, beside rows and terms."""
        return {
            "seed": stream(result.scalars["seed"], node.name),
            "temperature": self.sizes.temperature,
            "scalars": result.scalars,
            "max_new_tokens": self.sizes.max_new_tokens,
        }

    @contextmanager
    def _weights_may_change(self, step: int) -> Iterator[None]:
        """Let rollouts that run beside the update stand still while weights are handed over.

        Where the run is to be repeatable they are waited for; else they wait, and go on with the new weights.
        """
        if not self.sizes.max_weight_age:
            yield
        elif self.sizes.deterministic:
            with self._ahead.standing_still(learning=step):
                yield
        else:
            wait_for(self.roles.rollout.hold())
            try:
                yield
            finally:
                wait_for(self.roles.rollout.release())

    def _trainer(self, node: Node) -> Trainer:
        if node.role not in self.roles.trainers:
            raise unknown("role", node.role, self.roles.trainers)
        return self.roles.trainers[node.role]

    def sync_samplers(self, others: Sequence[str] = ()) -> None:
        """Hand the trainers' weights to their samplers: before the first step, and after these were restored.

        `others` are samplers that no node of the graph hands weights to: those of evaluations alone.
        """
        for node in self.graph.resolve().nodes:
            if node.view == "sync":
                self.scalars[f"weights.{node.role}"] = self.roles.sync(node.role)
        for role in others:
            self.roles.sync(role)

    def measure(self, data: Sequence[Mapping[str, Any]]) -> Metrics:
        """Return the loss of an update on rows of the data, with the metrics of its terms; no weights change.

        It is that of a graph whose rows come from the data set. A trainer that cannot measure (`MeasuresLoss`) gives
        none.
        """
        plan, metrics = self.graph.resolve(), Metrics()
        result = StepResult(Batch({}, table=plan.table), metrics, {}, True)
        result.scalars = {**self.scalars, "progress": 0.0, "seed": stream(self.sizes.seed, "measure")}
        rows = RolloutRows(result.batch, [(group, row) for group, row in enumerate(data)])
        for node in plan.nodes:
            if node.view == "update":
                trainer = self._trainer(node)
                if isinstance(trainer, MeasuresLoss):
                    trained = adapters.trainable_batch(renamed(rows.batch, node))
                    metrics.merge(trainer.measure(trained, node.call, **self._setting(node, result)))
            elif node.view not in ("source", "sync"):
                rows = self._call(node, plan, result, rows, len(data))
        return metrics

    def close(self) -> None:
        """End rollouts that run ahead; what they have drawn is left."""
        self._ahead.close(lambda: wait_for(self.roles.rollout.sampler.abort()))

    # -- what a resumed run needs

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Wait for rollouts that run ahead, and let none begin within the block: for `state_dict`."""
        with self._ahead.standing_still():
            yield

    def state_dict(self) -> dict[str, Any]:
        """Return carried values, the state of stateful components, and groups that were drawn and not trained.

        Raises RunError where the ledger does not close.
        """
        states = {name: call.state_dict() for name, call in self._started.items() if isinstance(call, KeepsState)}
        self.ledger.check(self.waiting_groups())
        return {
            "scalars": dict(self.scalars),
            "components": states,
            "skipped": self.skipped,
            "surplus": _packed(self._surplus),
            "ledger": self.ledger.state_dict(),
            "ahead": [_packed_result(result) for result in self._ahead.ready],
        }

    def account(self) -> dict[str, Any]:
        """Return what became of the groups that were drawn: trained, dropped by what, or waiting."""
        return {**self.ledger.state_dict(), "waiting": self.waiting_groups()}

    def waiting_groups(self) -> int:
        """Return how many groups were drawn and are neither trained nor dropped yet."""
        surplus = _groups(self._surplus) if self._surplus is not None else 0
        return surplus + sum(_groups(result.batch) for result in self._ahead.ready)

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
        self.ledger.load_state_dict(state["ledger"])
        self._ahead.restore([_unpacked_result(saved, self.graph.table) for saved in state["ahead"]])


def _packed_result(result: StepResult) -> dict[str, Any]:
    metrics = [(name, m.sum, m.weight, m.kind) for name in result.metrics for m in [result.metrics[name]]]
    kept = {name: getattr(result, name) for name in _PLAIN_FIELDS}
    return {**kept, "batch": _packed(result.batch), "metrics": metrics}


def _unpacked_result(saved: Mapping[str, Any], table: ColumnTable) -> StepResult:
    metrics = Metrics()
    for name, total, weight, kind in saved["metrics"]:
        metrics.put(name, total / weight if kind == "mean" and weight else total, weight, kind)
    kept = {name: saved[name] for name in _PLAIN_FIELDS}
    return StepResult(Batch(saved["batch"], table=table), metrics, **kept)


_PLAIN_FIELDS = ("seconds", "finite", "drawn_tokens", "rounds", "underfilled", "skipped", "step", "written")


def _oldest_version(batch: Batch, otherwise: int) -> torch.Tensor:
    """Return [B]: the oldest version of weights that drew a token of each row; `otherwise` where none was drawn."""
    return torch.where(batch["sampled"], batch["token_version"], otherwise).amin(1)


def renamed(batch: Batch, node: Node) -> Batch:
    """Return the batch as a role sees it: a node may take another column under a name (one policy's mask of two)."""
    return batch.assign({name: batch.stored(column) for name, column in node.columns.items() if column in batch})


def _started(node: Node) -> Any:
    with guarded(node.call, f"node {node.name!r}"):
        return started(node.call)


def _same_components(batches: Sequence[Batch]) -> Sequence[Batch]:
    """Return the batches with as many score components each: one that a grade first brought later is NaN before."""
    most = max((batch["score_components"].shape[1] for batch in batches if "score_components" in batch), default=0)

    def widened(batch: Batch) -> Batch:
        held = batch["score_components"] if "score_components" in batch else torch.zeros(len(batch), 0)
        padded = torch.nn.functional.pad(held, (0, most - held.shape[1]), value=math.nan)
        return batch.assign({"score_components": padded})

    return [widened(batch) for batch in batches] if most else batches


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
