"""The tree of an answer, the same for a number, a set, an equation or a word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Number:
    """A numeral, exactly as it is written; `decimal` says that it has a point or a power of ten, so may be rounded."""

    value: Fraction
    decimal: bool = False


@dataclass(frozen=True, slots=True)
class Name:
    """A variable or a constant."""

    name: str


@dataclass(frozen=True, slots=True)
class Words:
    """An answer, a label or a unit in words, in lower case and with single spaces."""

    text: str


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation on parts: arithmetic ("+"), a function ("sin"), a collection ("set", "(,)"), a relation ("=")."""

    op: str
    args: tuple[Expression, ...]


Expression = Number | Name | Words | Apply

LISTS = frozenset({"list", "and", "or"})
"""Things one after another without brackets."""
PAIRS = frozenset({"(,)", "[,]", "[,)", "(,]"})
"""Things in brackets, where order counts; two of them may be an interval."""


def walk(node: Expression) -> Iterator[Expression]:
    """Yield the node and every part of it."""
    yield node
    if isinstance(node, Apply):
        for part in node.args:
            yield from walk(part)


def names(node: Expression) -> frozenset[str]:
    """Return the variables of a tree, without the constants."""
    return frozenset(part.name for part in walk(node) if isinstance(part, Name) and part.name not in CONSTANTS)


CONSTANTS = frozenset({"pi", "e", "i", "infinity", "reals", "..."})


def has(node: Expression, *ops: str) -> bool:
    """Return whether one of these operations is anywhere in the tree."""
    return any(isinstance(part, Apply) and part.op in ops for part in walk(node))


def has_decimal(node: Expression) -> bool:
    """Return whether a numeral of the tree has a decimal point."""
    return any(isinstance(part, Number) and part.decimal for part in walk(node))


def rewrite(node: Expression, change: Callable[[Apply], Expression]) -> Expression:
    """Return the tree with `change` done to each operation, innermost first."""
    if not isinstance(node, Apply):
        return node
    return change(Apply(node.op, tuple(rewrite(part, change) for part in node.args)))
