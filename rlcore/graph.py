"""A graph is a list of nodes that read and write columns, and the list is the program.

A reader takes the nearest earlier writer; a node that reads and writes one column rewrites it for those after it.
Edges, pruning and what may run side by side are derived; a gap is found before a model loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlcore.columns import COLUMNS, ColumnTable
from rlcore.component import Read, name_of, outputs, reads
from rlcore.errors import GraphError, unknown
from rlcore.protocols import Forward, Update


@dataclass(frozen=True)
class Kind:
    """What all nodes of a kind share: the smallest piece they may be given, the view, implied reads and writes."""

    per: str
    view: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


_ROLLOUT = (
    "tokens",
    "length",
    "prompt_length",
    "sampled",
    "mask",
    "rollout_logprob",
    "kept_logmass",
    "token_version",
    "stop",
)
KINDS: dict[str, Kind] = {
    "prompts": Kind("-", "source", writes=("group", "data.*")),
    "rollout": Kind("row", "sample", ("group", "data.prompt"), (*_ROLLOUT, "session", "part")),
    "reward": Kind("row", "grade", ("tokens", "length", "prompt_length", "sampled"), ("score", "scores")),
    "filter": Kind("group", "filter"),
    "shaping": Kind("row", "rows"),
    "forward": Kind("row", "forward", ("tokens", "length", "sampled")),
    "kl": Kind("batch", "rows"),
    "correction": Kind("batch", "rows"),
    "advantage": Kind("batch", "sessions", ("length", "sampled"), ("advantage",)),
    "node": Kind("batch", "rows"),
    "controller": Kind("batch", "rows"),
    "update": Kind("batch", "update", ("tokens", "length", "sampled", "mask")),
    "sync": Kind("-", "sync"),
}


NO_COLUMNS = ("rows", "metrics")
"""Fields of a result that are no columns: indices into the input rows, and numbers to report."""


@dataclass(frozen=True, init=False)
class Node:
    """One step of a graph. What is not given is read off the call's signature and its kind.

    `columns` renames: `{"logprob": "old_logprob"}` lets one function serve two places. `active(step)` tells whether
    it runs in a step; `role` is whose weights a forward, an update or a sync works on. `rows` is set for what returns
    indices into its input rows (a filter, a split).

    Raises UnknownNameError for an unknown kind, GraphError for a component that says nowhere what it writes.
    """

    call: Any
    name: str
    kind: str
    per: str
    reads: tuple[Read, ...]
    writes: tuple[str, ...]
    columns: Mapping[str, str]
    active: Callable[[int], bool] | None
    role: str
    rows: bool

    def __init__(
        self,
        call: Any = None,
        *,
        name: str = "",
        kind: str = "node",
        per: str = "",
        reads: Iterable[str | Read] | None = None,
        writes: Iterable[str] | None = None,
        columns: Mapping[str, str] | None = None,
        active: Callable[[int], bool] | None = None,
        role: str = "",
        rows: bool = False,
        table: ColumnTable = COLUMNS,
    ) -> None:
        if kind not in KINDS:
            raise unknown("kind of node", kind, KINDS)
        rule, renamed = KINDS[kind], dict(columns or {})
        if reads is None:
            found = [
                replace(read, name=renamed.get(read.name, read.name)) for read in _derived_reads(call, role, table)
            ]
        else:
            found = [read if isinstance(read, Read) else Read(read) for read in reads]
        merged = {read.name: read for read in [*found, *(Read(renamed.get(r, r)) for r in rule.reads)]}
        written = tuple(writes) if writes is not None else _derived_writes(call, kind, role, renamed)
        rows = rows or kind == "filter" or "rows" in written
        written = tuple(w for w in written if w not in NO_COLUMNS)
        if not written and not rows:
            raise GraphError(
                f"node {name or name_of(call)!r} of kind {kind!r} writes nothing: give `writes`, "
                f"or name a NamedTuple of columns in the return annotation of {name_of(call)}"
            )
        fields: dict[str, Any] = {
            "call": call, "name": name or name_of(call), "kind": kind, "per": per or rule.per,
            "reads": tuple(merged.values()), "writes": written, "columns": renamed, "active": active, "role": role,
            "rows": rows,
        }  # fmt: skip
        for field_name, value in fields.items():
            object.__setattr__(self, field_name, value)

    @property
    def view(self) -> str:
        """How the executor presents the batch to it."""
        return KINDS[self.kind].view

    def writes_column(self, name: str) -> bool:
        """Tell whether it writes a column; `data.*` stands for the whole family."""
        return name in self.writes or (name.startswith("data.") and "data.*" in self.writes)

    def reads_column(self, name: str) -> bool:
        """Tell whether it reads a column."""
        return any(read.name == name for read in self.reads)

    def rewrites(self, name: str) -> bool:
        """Tell whether it reads and writes one column."""
        return self.writes_column(name) and self.reads_column(name)


def _derived_reads(call: Any, role: str, table: ColumnTable) -> list[Read]:
    weights = [Read(f"weights.{role}")] if role else []
    if isinstance(call, Forward) or call is None:
        return weights
    if isinstance(call, Update):
        return [*weights, *_update_reads(call, table)]
    return [*weights, *reads(call)]


def _update_reads(update: Update, table: ColumnTable) -> list[Read]:
    """Return what an update takes from the batch: not what current weights, its own first pass or its selects give.

    A current column that another role's logits have a part in makes that role's weights a read.
    """
    found: dict[str, Read] = {}
    made = {*update.offers, *(name for select in update.selects for name in outputs(select) or ())} - {"mask", "weight"}
    for term in update.terms:
        wanted = [*reads(term.loss), *(read for read in reads(term.reduction) if read.name != "counts")]
        if isinstance(term.coefficient, str):
            wanted.append(Read(term.coefficient))
        for read in wanted:
            if not table[read.name].current and read.name not in made:
                found.setdefault(read.name, read)
    for select in update.selects:
        for read in reads(select):
            if not table[read.name].current:
                found.setdefault(read.name, read)
    found |= {f"weights.{role}": Read(f"weights.{role}") for role in roles_beside(update, table)}
    found.setdefault("weight", Read("weight", optional=True))
    return list(found.values())


def roles_beside(update: Update, table: ColumnTable) -> tuple[str, ...]:
    """Return the roles whose logits an update's losses and selects look at, beside its own."""
    called = (*(term.loss for term in update.terms), *update.selects)
    named = (table[read.name].beside for part in called for read in reads(part) if read.name in table)
    return tuple(dict.fromkeys(role for role in named if role))


def _derived_writes(call: Any, kind: str, role: str, columns: Mapping[str, str]) -> tuple[str, ...]:
    if isinstance(call, Forward):
        return tuple(call.wanted)
    if kind in ("update", "sync"):
        return (f"weights.{role}",)
    named = outputs(call) if callable(call) else None
    return tuple(columns.get(name, name) for name in named or KINDS[kind].writes)


@dataclass(frozen=True)
class Plan:
    """A resolved graph: living nodes in order, what each must write, where each read comes from, what loads."""

    title: str
    nodes: tuple[Node, ...]
    wanted: Mapping[str, frozenset[str]]
    sources: Mapping[tuple[str, str], str | None]
    carried: frozenset[str]
    roles: tuple[str, ...]
    step_part: frozenset[str]
    pruned: tuple[str, ...]
    goals: tuple[str, ...]
    table: ColumnTable

    @property
    def stream(self) -> tuple[Node, ...]:
        """Nodes that may be given single rows or groups and may run ahead; their filters refill."""
        return tuple(n for n in self.nodes if n.name not in self.step_part)

    @property
    def step(self) -> tuple[Node, ...]:
        """Nodes that belong to the step."""
        return tuple(n for n in self.nodes if n.name in self.step_part)

    def reads_of(self, node: Node) -> tuple[str, ...]:
        """Return the columns that a living node really takes: optional reads without a writer are left out."""
        return tuple(r.name for r in node.reads if (node.name, r.name) in self.sources)

    def show(self) -> str:
        """Return the plan as a table: S belongs to the step, * from the last step, ~ rewrites, > replaces."""
        rows = [("", "node", "per", "reads", "writes")]
        seen: set[str] = set()
        for n in self.nodes:
            taken = [
                f"{r}{'*' if self.sources[n.name, r] is None or (n.name, r) in self._late() else ''}"
                for r in self.reads_of(n)
            ]
            given = []
            for w in n.writes:
                if w in self.wanted[n.name] or w == "data.*":
                    mark = "~" if n.rewrites(w) else ">" if w in seen and not w.startswith("weights.") else ""
                    given.append(mark + w)
            seen.update(n.writes)
            mark = "S" if n.name in self.step_part else ""
            refill = " (refills)" if n.rows and not mark else ""
            rows.append((mark, n.name + refill, n.per, " ".join(taken) or "-", " ".join(given) or "rows"))
        width = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = [
            "  ".join(cell.ljust(width[i]) if i < 4 else cell for i, cell in enumerate(row)).rstrip() for row in rows
        ]
        head = f"{self.title}   goal: {' '.join(self.goals)}   loads: {', '.join(self.roles)}"
        tail = "S = belongs to the step   * = from the last step   ~ = rewrites   > = replaces"
        gone = f"   pruned: {', '.join(self.pruned)}" if self.pruned else ""
        return "\n".join([head, *lines, tail + gone])

    def _late(self) -> set[tuple[str, str]]:
        place = {n.name: i for i, n in enumerate(self.nodes)}
        return {key for key, source in self.sources.items() if source is not None and place[source] >= place[key[0]]}

    def mermaid(self) -> str:
        """Return the plan as a Mermaid flow chart."""
        names = {n.name: f"n{i}" for i, n in enumerate(self.nodes)}
        lines = ["flowchart TD", *(f'  {names[n.name]}["{n.name}"]' for n in self.nodes)]
        late = self._late()
        edges: dict[tuple[str, str, bool], list[str]] = {}
        for (reader, column), source in self.sources.items():
            if source is not None:
                edges.setdefault((source, reader, (reader, column) in late), []).append(column)
        for (source, reader, carried), columns in edges.items():
            arrow = "-.->" if carried else "-->"
            lines.append(f"  {names[source]} {arrow}|{', '.join(columns)}| {names[reader]}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Graph:
    """Nodes in order, and the columns that a step is for."""

    nodes: tuple[Node, ...]
    goals: tuple[str, ...] = ("weights.trainer",)
    title: str = ""
    table: ColumnTable = COLUMNS

    def __post_init__(self) -> None:
        names = [n.name for n in self.nodes]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise GraphError(
                f"two nodes are named {', '.join(map(repr, twice))}; every node of a graph needs its own name"
            )

    def _place(self, name: str) -> int:
        for i, n in enumerate(self.nodes):
            if n.name == name:
                return i
        raise unknown("node", name, [n.name for n in self.nodes])

    def insert(self, new: Node, *, before: str | None = None, after: str | None = None) -> Graph:
        """Return a graph with one more node, before or after a named one."""
        if (before is None) == (after is None):
            raise GraphError("insert needs exactly one of before= and after=")
        place = self._place(before) if before is not None else self._place(str(after)) + 1
        return replace(self, nodes=(*self.nodes[:place], new, *self.nodes[place:]))

    def drop(self, name: str) -> Graph:
        """Return a graph without a named node."""
        place = self._place(name)
        return replace(self, nodes=(*self.nodes[:place], *self.nodes[place + 1 :]))

    def swap(self, name: str, new: Node) -> Graph:
        """Return a graph with a named node replaced."""
        place = self._place(name)
        return replace(self, nodes=(*self.nodes[:place], new, *self.nodes[place + 1 :]))

    def resolve(self) -> Plan:
        """Return the plan of a full step. Raises GraphError for a gap or a rewrite that is not allowed."""
        plan = _resolve(self, self.nodes, self.goals)
        roles = set(plan.roles)
        for resting in plan.nodes:
            if resting.active is not None:
                # What stands in for a resting node may need weights that a full step does not.
                roles |= set(self._without((resting.name,), plan).roles)
        return replace(plan, roles=tuple(sorted(roles)))

    def at(self, step: int) -> Plan:
        """Return the plan of one step: nodes that rest in it are left out."""
        full = self.resolve()
        resting = tuple(n.name for n in full.nodes if n.active is not None and not n.active(step))
        return self._without(resting, full) if resting else full

    def _without(self, resting: Sequence[str], full: Plan) -> Plan:
        nodes = tuple(n for n in self.nodes if n.name not in resting)
        try:
            return _resolve(self, nodes, (*self.goals, *sorted(full.carried - set(self.goals))), resting=True)
        except GraphError as error:
            raise GraphError(
                f"node {', '.join(resting)} may rest only if each column it writes has another source: {error}"
            ) from error

    def show(self) -> str:
        """Return the resolved graph as a table."""
        return self.resolve().show()


def _resolve(graph: Graph, nodes: Sequence[Node], goals: Sequence[str], *, resting: bool = False) -> Plan:
    """Derive edges, prune, and check: house rules, exactly."""
    table = graph.table
    _check_rewrites(nodes, table)
    reach = _Reach(graph, nodes)
    reach.from_goals(goals, resting=resting)
    order, sources = sorted(reach.alive), reach.sources
    structural = {i: {w for w in nodes[i].writes if w != "data.*" and table[w].structural} for i in order}
    carried = {c for (i, c), s in sources.items() if not table[c].dims and (s is None or s >= i)}
    roles = {c.partition(".")[2] for (_, c) in sources if c.startswith("weights.")}
    step_part = _step_part(nodes, order, sources)
    return Plan(
        title=graph.title,
        nodes=tuple(nodes[i] for i in order),
        wanted={nodes[i].name: frozenset(reach.wanted[i] | structural[i]) for i in order},
        sources={(nodes[i].name, c): (nodes[s].name if s is not None else None) for (i, c), s in sources.items()},
        carried=frozenset(carried),
        roles=tuple(sorted(roles)),
        step_part=frozenset(nodes[i].name for i in step_part),
        pruned=tuple(n.name for i, n in enumerate(nodes) if i not in reach.alive),
        goals=graph.goals,
        table=table,
    )


def _check_rewrites(nodes: Sequence[Node], table: ColumnTable) -> None:
    for n in nodes:
        for w in n.writes:
            if w != "data.*" and n.rewrites(w) and not table[w].rewritable and not w.startswith("weights."):
                raise GraphError(
                    f"node {n.name!r} reads and writes {w!r}, which may not be rewritten ({table[w].meaning})"
                )


class _Reach:
    """What goals need, by place in the list: living nodes, the columns wanted of each, the source of each read."""

    def __init__(self, graph: Graph, nodes: Sequence[Node]) -> None:
        self.graph, self.nodes, self.table = graph, nodes, graph.table
        self.alive: set[int] = set()
        self.wanted: dict[int, set[str]] = {i: set() for i in range(len(nodes))}
        self.sources: dict[tuple[int, str], int | None] = {}
        self._todo: list[int] = []

    def from_goals(self, goals: Sequence[str], *, resting: bool) -> None:
        """Follow every read from the goals; filters between a writer and a reader live too. Raises GraphError."""
        for goal in goals:
            place = self._writer(goal, len(self.nodes))
            # In a step whose writer rests, a goal without dimensions keeps its last value.
            if place is None and (not resting or self.table[goal].dims):
                raise GraphError(f"the goal {goal!r} is written by no node of {self.graph.title or 'this graph'}")
            if place is not None:
                self._want(goal, place)
        self._follow()
        while standing := self._filters_between():
            self.alive.update(standing)
            self._todo.extend(standing)
            self._follow()

    def _writer(self, column: str, before: int) -> int | None:
        return next((i for i in range(before - 1, -1, -1) if self.nodes[i].writes_column(column)), None)

    def _source(self, column: str, reader: int) -> int | None:
        """Return the nearest earlier writer; only what has no dimensions carries over from the list's last one."""
        early = self._writer(column, reader)
        return self._writer(column, len(self.nodes)) if early is None and not self.table[column].dims else early

    def _want(self, column: str, place: int) -> None:
        self.wanted[place].add(column)
        if place not in self.alive:
            self.alive.add(place)
            self._todo.append(place)

    def _follow(self) -> None:
        while self._todo:
            i = self._todo.pop()
            for read in self.nodes[i].reads:
                found = self._source(read.name, i)
                if found is None and read.optional:
                    continue
                if found is None and self.table[read.name].dims:
                    raise _gap(self.graph, self.nodes, i, read.name)
                # What nobody writes and has no dimensions is the run's to give.
                self.sources[i, read.name] = found
                if found is not None:
                    self._want(read.name, found)

    def _filters_between(self) -> list[int]:
        """Return the filters that stand on an edge of a row column leading from before them to after them."""
        edges = [(s, i) for (i, c), s in self.sources.items() if s is not None and self.table[c].dims]
        return [
            k for k, n in enumerate(self.nodes) if n.rows and k not in self.alive and any(s < k < i for s, i in edges)
        ]


def _step_part(nodes: Sequence[Node], order: Sequence[int], sources: Mapping[tuple[int, str], int | None]) -> set[int]:
    """Return the nodes of the step: batch nodes, readers of weights that a living node rewrites, and their readers."""
    rewritten = {w for i in order for w in nodes[i].writes if w.startswith("weights.") and nodes[i].rewrites(w)}
    part: set[int] = set()
    for i in order:
        n = nodes[i]
        taken = {c: s for (reader, c), s in sources.items() if reader == i}
        follows = any(s in part and s is not None and s < i for s in taken.values())
        moved_past = n.per == "group" and any(nodes[k].rows for k in part if k < i)
        if n.per == "batch" or rewritten & set(taken) or follows or moved_past:
            part.add(i)
    return part


def _gap(graph: Graph, nodes: Sequence[Node], reader: int, column: str) -> GraphError:
    n = nodes[reader]
    later = [m.name for m in nodes[reader + 1 :] if m.writes_column(column)]
    if later:
        hint = f"it is written only later, by {', '.join(later)}"
    else:
        hint = f"no node writes it; it comes from: {graph.table[column].writer}"
    present = sorted({w for m in nodes[:reader] for w in m.writes})
    return GraphError(
        f"node {n.name!r} reads {column!r} ({graph.table[column].meaning}), but {hint}. "
        f"Written before it: {', '.join(present)}"
    )
