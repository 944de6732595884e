"""From a list of nodes to a plan: edges, living nodes, the learning stage, and the gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlcore.columns import ColumnTable
from rlcore.errors import GraphError
from rlcore.graph.node import Node
from rlcore.graph.plan import Plan


def resolve(
    nodes: Sequence[Node],
    goals: Sequence[str],
    *,
    title: str,
    table: ColumnTable,
    kept: Sequence[str] = (),
    resting: bool = False,
) -> Plan:
    """Return the plan of a list of nodes: edges derived, what no goal reaches left out.

    `kept` are columns that must be made besides the goals. With `resting` some nodes are left out of this step, so a
    goal without dimensions may keep its last value.

    Raises GraphError for a column that nothing writes, and for a rewrite that is not allowed.
    """
    _check_rewrites(nodes, table)
    reach = _Reach(nodes, title, table)
    reach.from_goals((*goals, *kept), resting=resting)
    order, sources = sorted(reach.alive), reach.sources
    structural = {i: {w for w in nodes[i].writes if w != "data.*" and table[w].structural} for i in order}
    carried = {c for (i, c), s in sources.items() if not table[c].dims and (s is None or s >= i)}
    roles = {c.partition(".")[2] for (_, c) in sources if c.startswith("weights.")}
    learning = _learning_stage(nodes, order, sources)
    return Plan(
        title=title,
        nodes=tuple(nodes[i] for i in order),
        wanted={nodes[i].name: frozenset(reach.wanted[i] | structural[i]) for i in order},
        sources={(nodes[i].name, c): (nodes[s].name if s is not None else None) for (i, c), s in sources.items()},
        carried=frozenset(carried),
        roles=tuple(sorted(roles)),
        learning_names=frozenset(nodes[i].name for i in learning),
        pruned=tuple(n.name for i, n in enumerate(nodes) if i not in reach.alive),
        goals=tuple(goals),
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

    def __init__(self, nodes: Sequence[Node], title: str, table: ColumnTable) -> None:
        self.nodes, self.title, self.table = nodes, title, table
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
                raise GraphError(f"the goal {goal!r} is written by no node of {self.title or 'this graph'}")
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
                    raise _gap(self.nodes, self.table, i, read.name)
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


def _learning_stage(
    nodes: Sequence[Node], order: Sequence[int], sources: Mapping[tuple[int, str], int | None]
) -> set[int]:
    """Return the nodes of the learning stage, by place.

    They are batch nodes, readers of weights that a living node rewrites, and all that read what these write.
    """
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


def _gap(nodes: Sequence[Node], table: ColumnTable, reader: int, column: str) -> GraphError:
    n = nodes[reader]
    later = [m.name for m in nodes[reader + 1 :] if m.writes_column(column)]
    if later:
        hint = f"it is written only later, by {', '.join(later)}"
    else:
        hint = f"no node writes it; it comes from: {table[column].writer}"
    present = sorted({w for m in nodes[:reader] for w in m.writes})
    return GraphError(
        f"node {n.name!r} reads {column!r} ({table[column].meaning}), but {hint}. "
        f"Written before it: {', '.join(present)}"
    )
