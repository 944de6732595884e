"""A graph: a list of nodes that can be inserted, dropped or replaced by name, and resolved into the plan of a step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlcore.columns import COLUMNS, ColumnTable
from rlcore.errors import GraphError, unknown
from rlcore.graph.node import Node
from rlcore.graph.plan import Plan, joined
from rlcore.graph.resolving import resolve

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")
_RESERVED = ("complete", "eval", "groups", "measured", "policy", "response", "rows", "score", "seconds", "speed")
"""Words that begin the names of metrics or name files of a run."""


@dataclass(frozen=True)
class Graph:
    """Nodes in order, and the columns that a step must produce (`goals`).

    It may train several policies (see `beside`). Each has rows, and so columns, of its own.
    """

    nodes: tuple[Node, ...]
    goals: tuple[str, ...] = ("weights.trainer",)
    title: str = ""
    table: ColumnTable = COLUMNS

    def __post_init__(self) -> None:
        names = [n.full_name for n in self.nodes]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise GraphError(
                f"two nodes are named {', '.join(map(repr, twice))}; every node of a graph needs its own name"
            )

    def _place(self, name: str) -> int:
        names = [n.full_name for n in self.nodes]
        if name not in names:
            raise unknown("node", name, names)
        return names.index(name)

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

    @property
    def policies(self) -> tuple[str, ...]:
        """Return the policies that it trains, in order; the first is named by an empty string."""
        return tuple(dict.fromkeys(n.policy for n in self.nodes))

    def of_policy(self, policy: str) -> Graph:
        """Return the graph of one of its policies."""
        nodes = tuple(n for n in self.nodes if n.policy == policy)
        goals = tuple(goal for goal in self.goals if any(n.writes_column(goal) for n in nodes))
        return replace(self, nodes=nodes, goals=goals)

    def beside(self, other: Graph, policy: str) -> Graph:
        """Return a graph that trains another policy as well, by the graph of another algorithm.

        Each policy is trained on rows of its own: prompts, rollout, reward, filters, advantage and update are those of
        its own graph, with the environment and the reward that this was made with. A node of the other policy is
        called POLICY/NAME. Its weights are those of the role `policy` in place of `trainer`, and of ROLE_POLICY in
        place of each other role that is updated or draws (`sampler_b`, `critic_b`); what nothing updates, such as
        `reference`, is shared.

        Raises GraphError where the other graph trains several policies, or the name is taken.
        """
        roles = {role for plan in (self.resolve(), other.resolve()) for role in plan.roles}
        if not policy or policy in (*self.policies, *roles):
            raise GraphError(f"the policy {policy!r} needs a name of its own; taken: {', '.join(sorted(roles))}")
        if not _NAME.fullmatch(policy) or policy in (*_RESERVED, *(n.name for n in (*self.nodes, *other.nodes))):
            raise GraphError(
                f"the policy {policy!r:.60} names folders and metrics: 1 to 60 letters, digits, '_' and '-', beginning "
                f"with a letter, and neither a node's name nor one of {', '.join(_RESERVED)}"
            )
        if len(other.policies) != 1:
            raise GraphError(f"{other.title or 'the other graph'} trains several policies; put them beside one by one")
        own = {n.role for n in other.nodes if n.view in ("sample", "sync", "update")} - {"trainer", ""}
        renamed = {"trainer": policy} | {role: f"{role}_{policy}" for role in own}
        goals = (
            f"weights.{renamed.get(role, role)}" if of == "weights" else goal
            for goal in other.goals
            for of, _, role in [goal.partition(".")]
        )
        nodes = (n.of_policy(policy, renamed) for n in other.nodes)
        title = f"{self.title} and {other.title} ({policy})"
        return replace(self, nodes=(*self.nodes, *nodes), goals=(*self.goals, *goals), title=title)

    def resolve(self) -> Plan:
        """Return the plan of a step in which every node runs; its roles are those of any step.

        Raises GraphError for a column that nothing writes, or that may not be rewritten.
        """
        if len(self.policies) > 1:
            return joined([self.of_policy(policy).resolve() for policy in self.policies], self.title)
        plan = resolve(self.nodes, self.goals, title=self.title, table=self.table)
        roles = set(plan.roles)
        for resting in plan.nodes:
            if resting.active is not None:
                # While this node rests, nodes that a full step prunes may write its columns, from other weights.
                roles |= set(self._without((resting.name,), plan).roles)
        return replace(plan, roles=tuple(sorted(roles)))

    def at(self, step: int) -> Plan:
        """Return the plan of one step (from 0), without the nodes that are not active in it."""
        if len(self.policies) > 1:
            return joined([self.of_policy(policy).at(step) for policy in self.policies], self.title)
        full = self.resolve()
        resting = tuple(n.name for n in full.nodes if n.active is not None and not n.active(step))
        return self._without(resting, full) if resting else full

    def _without(self, resting: Sequence[str], full: Plan) -> Plan:
        nodes = tuple(n for n in self.nodes if n.name not in resting)
        try:
            kept = sorted(full.carried - set(self.goals))
            changing = [w for n in full.nodes for w in n.writes if w.startswith("weights.") and n.rewrites(w)]
            return resolve(
                nodes, self.goals, title=self.title, table=self.table, kept=kept, resting=True, changing=changing
            )
        except GraphError as error:
            raise GraphError(
                f"node {', '.join(resting)} may rest only if each column it writes has another source: {error}"
            ) from error

    def show(self) -> str:
        """Return the resolved graph as a table."""
        return self.resolve().show()
