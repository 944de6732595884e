"""The plan of a step: a resolved graph, which can be shown as a table or a Mermaid chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rlcore.columns import ColumnTable
from rlcore.graph.node import Node


@dataclass(frozen=True)
class Plan:
    """A resolved graph.

    Attributes:
        nodes: the nodes that a goal depends on, in order; `pruned` are the names of the others.
        wanted: for each node's name the columns that it must write; others that it could write are not needed.
        sources: for each (node, column that it reads) the node that writes it; None where the run gives the value.
        carried: columns without dimensions whose value of one step is read in the next.
        roles: whose weights must be loaded.
        learning_names: names of the nodes of the learning stage.
    """

    title: str
    nodes: tuple[Node, ...]
    wanted: Mapping[str, frozenset[str]]
    sources: Mapping[tuple[str, str], str | None]
    carried: frozenset[str]
    roles: tuple[str, ...]
    learning_names: frozenset[str]
    pruned: tuple[str, ...]
    goals: tuple[str, ...]
    table: ColumnTable

    @property
    def sampler_roles(self) -> tuple[str, ...]:
        """Return the roles that draw completions."""
        return tuple(dict.fromkeys(n.role for n in self.nodes if n.view in ("sample", "sync")))

    @property
    def drawn_from(self) -> dict[str, str]:
        """Return for each role that draws completions the role whose weights it is given."""
        given = [(n.role, read.name) for n in self.nodes if n.view == "sync" for read in n.reads]
        return {role: name.removeprefix("weights.") for role, name in given if name.startswith("weights.")}

    @property
    def rollout_stage(self) -> tuple[Node, ...]:
        """Nodes that may be given single rows or groups and may run ahead of the update; their filters refill."""
        return tuple(n for n in self.nodes if n.name not in self.learning_names)

    @property
    def learning_stage(self) -> tuple[Node, ...]:
        """Nodes from the first that needs the whole batch: advantage, update, sync."""
        return tuple(n for n in self.nodes if n.name in self.learning_names)

    def available_reads(self, node: Node) -> tuple[str, ...]:
        """Return the columns that a node of the plan reads; an optional one that nothing writes is left out."""
        return tuple(r.name for r in node.reads if (node.name, r.name) in self.sources)

    def show(self) -> str:
        """Return the plan as a table: S belongs to the learning stage, * from the last step, ~ rewrites, > replaces."""
        rows = [("", "node", "per", "reads", "writes")]
        seen: set[tuple[str, str]] = set()
        for n in self.nodes:
            reads = [
                f"{r}*" if self.sources[n.name, r] is None or (n.name, r) in self._from_last_step() else r
                for r in self.available_reads(n)
            ]
            # The columns of each policy are its own.
            policy, writes = n.name.rpartition("/")[0], []
            for w in n.writes:
                if w in self.wanted[n.name] or w == "data.*":
                    mark = "~" if n.rewrites(w) else ">" if (policy, w) in seen and not w.startswith("weights.") else ""
                    writes.append(mark + w)
            seen.update((policy, w) for w in n.writes)
            mark = "S" if n.name in self.learning_names else ""
            refill = " (refills)" if n.rows and not mark else ""
            rows.append((mark, n.name + refill, n.per, " ".join(reads) or "-", " ".join(writes) or "rows"))
        width = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = [
            "  ".join(cell.ljust(width[i]) if i < 4 else cell for i, cell in enumerate(row)).rstrip() for row in rows
        ]
        head = f"{self.title}   goal: {' '.join(self.goals)}   loads: {', '.join(self.roles)}"
        tail = "S = learning stage   * = from the last step   ~ = rewrites   > = replaces"
        pruned = f"   pruned: {', '.join(self.pruned)}" if self.pruned else ""
        return "\n".join([head, *lines, tail + pruned])

    def _from_last_step(self) -> set[tuple[str, str]]:
        """Return the (node, column) whose value a node at or after the reader wrote, in the step before."""
        place = {n.name: i for i, n in enumerate(self.nodes)}
        return {key for key, source in self.sources.items() if source is not None and place[source] >= place[key[0]]}

    def mermaid(self) -> str:
        """Return the plan as a Mermaid flow chart."""
        names = {n.name: f"n{i}" for i, n in enumerate(self.nodes)}
        lines = ["flowchart TD", *(f'  {names[n.name]}["{n.name}"]' for n in self.nodes)]
        late = self._from_last_step()
        edges: dict[tuple[str, str, bool], list[str]] = {}
        for (reader, column), source in self.sources.items():
            if source is not None:
                edges.setdefault((source, reader, (reader, column) in late), []).append(column)
        for (source, reader, carried), columns in edges.items():
            arrow = "-.->" if carried else "-->"
            lines.append(f"  {names[source]} {arrow}|{', '.join(columns)}| {names[reader]}")
        return "\n".join(lines)


def joined(plans: Sequence[Plan], title: str) -> Plan:
    """Return one plan of the plans of several policies, to be shown and asked for roles; nodes by their full names."""

    def full(plan: Plan, name: str) -> str:
        policy = plan.nodes[0].policy
        return f"{policy}/{name}" if policy else name

    return Plan(
        title=title,
        nodes=tuple(replace(n, name=n.full_name, policy="") for plan in plans for n in plan.nodes),
        wanted={full(plan, name): columns for plan in plans for name, columns in plan.wanted.items()},
        sources={
            (full(plan, reader), column): None if source is None else full(plan, source)
            for plan in plans
            for (reader, column), source in plan.sources.items()
        },
        carried=frozenset().union(*(plan.carried for plan in plans)),
        roles=tuple(sorted({role for plan in plans for role in plan.roles})),
        learning_names=frozenset(full(plan, name) for plan in plans for name in plan.learning_names),
        pruned=tuple(full(plan, name) for plan in plans for name in plan.pruned),
        goals=tuple(goal for plan in plans for goal in plan.goals),
        table=plans[0].table,
    )
