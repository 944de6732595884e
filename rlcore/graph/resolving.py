"""From a list of nodes to a plan: where each read comes from, which nodes are needed, and the two stages of a step."""

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
    changing: Sequence[str] = (),
) -> Plan:
    """Return the plan of a list of nodes, without those that no goal depends on.

    goals: columns that the step must produce. kept: further columns to produce, which are no goals.
    resting: the list is that of a step in which some nodes do not run, so a goal without dimensions (a version of
    weights) need not be written: it keeps its last value. changing: weights that other steps change, which may be
    changed while this one's rollout stage runs.

    Raises GraphError for a column that is read and not written, and for one that is rewritten and may not be.
    """
    if not goals:
        raise GraphError(
            f"{title or 'this graph'} has no goal, so nothing in it is needed: Graph(..., goals=('weights.trainer',))"
        )
    _check_rewrites(nodes, table)
    needs = _Needs(nodes, title, table)
    needs.trace((*goals, *kept), resting=resting)
    order, sources = sorted(needs.nodes_needed), needs.sources
    structural = {i: {w for w in nodes[i].writes if w != "data.*" and table[w].structural} for i in order}
    carried = {c for (i, c), s in sources.items() if not table[c].dims and (s is None or s >= i)}
    roles = {c.partition(".")[2] for (_, c) in sources if c.startswith("weights.")}
    return Plan(
        title=title,
        nodes=tuple(nodes[i] for i in order),
        wanted={nodes[i].name: frozenset(needs.columns_needed[i] | structural[i]) for i in order},
        sources={(nodes[i].name, c): (nodes[s].name if s is not None else None) for (i, c), s in sources.items()},
        carried=frozenset(carried),
        roles=tuple(sorted(roles)),
        learning_names=frozenset(nodes[i].name for i in _learning_stage(nodes, order, sources, changing)),
        pruned=tuple(n.name for i, n in enumerate(nodes) if i not in needs.nodes_needed),
        goals=tuple(goals),
        table=table,
    )


def _check_rewrites(nodes: Sequence[Node], table: ColumnTable) -> None:
    """Raise GraphError for a node that reads and writes one column, where the column table does not allow it."""
    for n in nodes:
        for w in n.writes:
            if w != "data.*" and n.rewrites(w) and not table[w].rewritable and not w.startswith("weights."):
                raise GraphError(
                    f"node {n.name!r} reads and writes {w!r}, which may not be rewritten ({table[w].meaning})"
                )


class _Needs:
    """What the goals of a graph depend on, found by following reads backwards. Nodes are known by place in the list.

    Attributes:
        nodes_needed: places of the nodes that a goal depends on.
        columns_needed: for each place the columns that this node must write.
        sources: for each (place, column read) the place that writes it; None where the run itself gives the value.
    """

    def __init__(self, nodes: Sequence[Node], title: str, table: ColumnTable) -> None:
        self.nodes, self.title, self.table = nodes, title, table
        self.nodes_needed: set[int] = set()
        self.columns_needed: dict[int, set[str]] = {i: set() for i in range(len(nodes))}
        self.sources: dict[tuple[int, str], int | None] = {}
        self._unvisited: list[int] = []

    def trace(self, goals: Sequence[str], *, resting: bool) -> None:
        """Find all that the goals depend on; see `resolve`. A filter is needed where rows pass it on their way."""
        for goal in goals:
            writer = self._last_writer(goal, before=len(self.nodes))
            if writer is not None:
                self._need(goal, writer)
            elif not resting or self.table[goal].dims:
                raise GraphError(f"the goal {goal!r} is written by no node of {self.title or 'this graph'}")
        self._visit_all()
        while filters := self._filters_passed():
            self.nodes_needed.update(filters)
            self._unvisited.extend(filters)
            self._visit_all()

    def _last_writer(self, column: str, *, before: int) -> int | None:
        return next((i for i in range(before - 1, -1, -1) if self.nodes[i].writes_column(column)), None)

    def _source(self, column: str, reader: int) -> int | None:
        """Return the nearest writer before a reader.

        A column without dimensions may also come from a writer after it, which wrote it in the step before.
        """
        writer = self._last_writer(column, before=reader)
        if writer is None and not self.table[column].dims:
            return self._last_writer(column, before=len(self.nodes))
        return writer

    def _need(self, column: str, writer: int) -> None:
        self.columns_needed[writer].add(column)
        if writer not in self.nodes_needed:
            self.nodes_needed.add(writer)
            self._unvisited.append(writer)

    def _visit_all(self) -> None:
        """Find the source of every read of the nodes that are needed and not yet visited."""
        while self._unvisited:
            reader = self._unvisited.pop()
            for read in self.nodes[reader].reads:
                writer = self._source(read.name, reader)
                if writer is not None:
                    self._need(read.name, writer)
                elif read.optional:
                    continue
                elif self.table[read.name].dims:
                    raise _unwritten(self.nodes, self.table, reader, read.name)
                self.sources[reader, read.name] = writer

    def _filters_passed(self) -> list[int]:
        """Return the filters, not yet needed, between the writer of a column of rows and a reader of it."""
        passages = [(s, i) for (i, c), s in self.sources.items() if s is not None and self.table[c].dims]
        return [
            k
            for k, n in enumerate(self.nodes)
            if n.rows and k not in self.nodes_needed and any(writer < k < reader for writer, reader in passages)
        ]


def _learning_stage(
    nodes: Sequence[Node],
    order: Sequence[int],
    sources: Mapping[tuple[int, str], int | None],
    changing: Sequence[str],
) -> set[int]:
    """Return the places of the nodes of the learning stage, which run once a step on all of its rows.

    A node belongs to it if it takes whole batches, if it reads weights that a step changes, if it reads what a node
    of the learning stage writes, or if it takes groups and comes after a filter of the learning stage.
    """
    changed = {w for i in order for w in nodes[i].writes if w.startswith("weights.") and nodes[i].rewrites(w)}
    changed |= set(changing)
    learning: set[int] = set()
    for i in order:
        reads = {column: source for (reader, column), source in sources.items() if reader == i}
        reads_learning = any(source is not None and source < i and source in learning for source in reads.values())
        follows_filter = nodes[i].per == "group" and any(nodes[k].rows for k in learning)
        if nodes[i].per == "batch" or changed & set(reads) or reads_learning or follows_filter:
            learning.add(i)
    return learning


def _unwritten(nodes: Sequence[Node], table: ColumnTable, reader: int, column: str) -> GraphError:
    """Return the error for a column that a node reads and no node before it writes."""
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
