"""A node of a graph: the component that it calls, the columns that it reads and writes, and its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlcore.columns import COLUMNS, ColumnTable
from rlcore.component import Read, name_of, outputs, reads, source_of
from rlcore.errors import GraphError, unknown
from rlcore.protocols import Forward, Update


@dataclass(frozen=True)
class NodeKind:
    """What all nodes of a kind share.

    Attributes:
        per: the least that a node is given: a "row", a "group" or the whole "batch"; "-" for one that is given none.
        view: how the executor calls it.
        reads, writes: columns that it reads and writes besides those of its component's signature, unless it is told
            others.
        needs: columns that it reads whatever it is told: nothing is drawn for no prompt.
    """

    per: str
    view: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


_TOKENS = ("tokens", "length", "prompt_length", "sampled", "mask")
_SAMPLED = ("rollout_logprob", "kept_logmass", "token_version", "stop", "conversation", "session", "segment")
NODE_KINDS: dict[str, NodeKind] = {
    "prompts": NodeKind("-", "source", writes=("group", "data.*")),
    "rows": NodeKind("row", "encode", writes=(*_TOKENS, "session"), needs=("group", "data.*")),
    "rollout": NodeKind("row", "sample", writes=(*_TOKENS, *_SAMPLED), needs=("group", "data.prompt")),
    "reward": NodeKind(
        "row", "grade", ("tokens", "length", "prompt_length", "sampled", "stop"), ("score", "score_components")
    ),
    "filter": NodeKind("group", "filter"),
    "shaping": NodeKind("row", "rows"),
    "forward": NodeKind("row", "forward", ("tokens", "length", "sampled")),
    "kl": NodeKind("batch", "rows"),
    "correction": NodeKind("batch", "rows"),
    "advantage": NodeKind("batch", "sessions", ("length", "sampled"), ("advantage",)),
    "node": NodeKind("batch", "rows"),
    "controller": NodeKind("batch", "rows"),
    "update": NodeKind("batch", "update", ("tokens", "length", "sampled", "mask")),
    "sync": NodeKind("-", "sync"),
}
NO_COLUMNS = ("rows", "metrics")
"""Fields of a component's result that are no columns: indices of the rows to keep, and metrics."""


@dataclass(frozen=True, init=False)
class Node:
    """One call in a step. `reads` and `writes` follow from the component's signature and the kind, unless given.
    `reads` that are given take the place of the signature's and of those of the kind, but for what it always needs.

    Attributes:
        call: the component, an `Update` or a `Forward`.
        per: as in `NodeKind`.
        columns: parameter -> column where the names differ: `{"logprob": "old_logprob"}`.
        active: `active(step)` tells whether it runs in a step; None is always.
        role: whose weights a forward, an update or a sync works on.
        policy: whose rows it is given, in a graph that trains several policies; empty for the first one.
        rows: the component returns indices of the rows to keep, as filters do.

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
    policy: str

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
        policy: str = "",
        table: ColumnTable = COLUMNS,
    ) -> None:
        if kind not in NODE_KINDS:
            raise unknown("kind of node", kind, NODE_KINDS)
        rule, renamed = NODE_KINDS[kind], dict(columns or {})
        if reads is None:
            derived = [
                replace(read, name=renamed.get(read.name, read.name))
                for read in _derived_reads(call, kind, role, table)
            ]
            listed = [*derived, *(Read(renamed.get(r, r)) for r in rule.reads)]
        else:
            listed = [read if isinstance(read, Read) else Read(read) for read in reads]
        merged = {read.name: read for read in [*listed, *map(Read, rule.needs)]}
        written = tuple(writes) if writes is not None else _derived_writes(call, kind, role, renamed)
        rows = rows or kind == "filter" or "rows" in written
        written = tuple(w for w in written if w not in NO_COLUMNS)
        if not written and not rows:
            raise GraphError(
                f"node {name or name_of(call)!r} of kind {kind!r} writes nothing: give `writes`, "
                f"or name a NamedTuple of columns in the return annotation of {name_of(call)}"
            )
        fields = dict(call=call, name=name or name_of(call), kind=kind, per=per or rule.per, columns=renamed, rows=rows)
        fields |= dict(reads=tuple(merged.values()), writes=written, active=active, role=role, policy=policy)
        for field_name, value in fields.items():
            object.__setattr__(self, field_name, value)

    @property
    def full_name(self) -> str:
        """Its name in a graph that trains several policies: `POLICY/NAME`, or the name alone."""
        return f"{self.policy}/{self.name}" if self.policy else self.name

    def of_policy(self, policy: str, roles: Mapping[str, str]) -> Node:
        """Return the node as one of another policy, with other roles (old -> new) in their places."""

        def column(name: str) -> str:
            kind, dot, role = name.partition(".")
            return f"weights.{roles.get(role, role)}" if kind == "weights" and dot else name

        reads = tuple(replace(read, name=column(read.name)) for read in self.reads)
        role = roles.get(self.role, self.role)
        return replace(self, reads=reads, writes=tuple(column(c) for c in self.writes), role=role, policy=policy)

    @property
    def reference_roles(self) -> tuple[str, ...]:
        """The roles beside an update's own whose logits its losses and selects read."""
        roles = [read.name.removeprefix("weights.") for read in self.reads if read.name.startswith("weights.")]
        return tuple(role for role in roles if role != self.role)

    @property
    def view(self) -> str:
        """Return how the executor calls it; see `NodeKind`."""
        return NODE_KINDS[self.kind].view

    def writes_column(self, name: str) -> bool:
        """Return whether it writes a column; `data.*` stands for all columns of the data set."""
        return name in self.writes or (name.startswith("data.") and "data.*" in self.writes)

    def reads_column(self, name: str) -> bool:
        """Return whether it reads a column."""
        return any(read.name == name for read in self.reads)

    def rewrites(self, name: str) -> bool:
        """Return whether it reads and writes a column."""
        return self.writes_column(name) and self.reads_column(name)


def _derived_reads(call: Any, kind: str, role: str, table: ColumnTable) -> list[Read]:
    weights = [Read(f"weights.{role}")] if role else []
    if isinstance(call, Forward) or call is None or NODE_KINDS[kind].view == "encode":
        return weights
    if isinstance(call, Update):
        return [*weights, *_update_reads(call, table)]
    return [*weights, *reads(call)]


def _update_reads(update: Update, table: ColumnTable) -> list[Read]:
    """Return the columns that an update reads from the batch.

    Columns of the current weights, of its own first pass and of its selects are not among them. A column that compares
    with another role's logits makes that role's weights a read.
    """
    needed: dict[str, Read] = {}
    from_selects = {name for select in update.selects for name in outputs(select) or ()} - {"mask", "weight"}
    own = {*update.provides, *from_selects}
    for term in update.terms:
        wanted = [*reads(term.loss), *(read for read in reads(term.reduction) if read.name != "counts")]
        if isinstance(term.coefficient, str):
            wanted.append(Read(term.coefficient))
        for read in wanted:
            if not table[read.name].current and read.name not in own:
                needed.setdefault(read.name, read)
    for select in update.selects:
        for read in reads(select):
            if not table[read.name].current:
                needed.setdefault(read.name, read)
    called = (*(term.loss for term in update.terms), *update.selects)
    roles = (table[read.name].reference_role for each in called for read in reads(each) if read.name in table)
    needed |= {f"weights.{role}": Read(f"weights.{role}") for role in roles if role}
    needed.setdefault("weight", Read("weight", optional=True))
    return list(needed.values())


def _derived_writes(call: Any, kind: str, role: str, columns: Mapping[str, str]) -> tuple[str, ...]:
    if isinstance(call, Forward):
        return tuple(call.wanted)
    if kind in ("update", "sync"):
        return (f"weights.{role}",)
    if NODE_KINDS[kind].view == "encode":
        return (*NODE_KINDS[kind].writes, *getattr(source_of(call), "columns", ()))
    named = outputs(call) if callable(call) else None
    return tuple(columns.get(name, name) for name in named or NODE_KINDS[kind].writes)
