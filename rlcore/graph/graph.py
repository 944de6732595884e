"""A graph: nodes in order, changed by name, resolved into a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlcore.columns import COLUMNS, ColumnTable
from rlcore.errors import GraphError, unknown
from rlcore.graph.node import Node
from rlcore.graph.plan import Plan
from rlcore.graph.resolving import resolve


@dataclass(frozen=True)
class Graph:
    """Nodes in order, and the columns that a step must produce (`goals`)."""

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
        plan = resolve(self.nodes, self.goals, title=self.title, table=self.table)
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
            kept = sorted(full.carried - set(self.goals))
            return resolve(nodes, self.goals, title=self.title, table=self.table, kept=kept, resting=True)
        except GraphError as error:
            raise GraphError(
                f"node {', '.join(resting)} may rest only if each column it writes has another source: {error}"
            ) from error

    def show(self) -> str:
        """Return the resolved graph as a table."""
        return self.resolve().show()
