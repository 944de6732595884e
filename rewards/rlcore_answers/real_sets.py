"""Sets of real numbers as intervals in order, so that an interval and an inequality can be the same answer."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rlcore_answers.evaluation import Evaluator, NoValueError, is_real, mp, to_real
from rlcore_answers.expressions import Apply, Expression, Name, Words, names

TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from `low` to `high`, with its ends or without."""

    low: Any
    low_in: bool
    high: Any
    high_in: bool


@dataclass(frozen=True, slots=True)
class RealSet:
    """Disjoint intervals in order, and the variable that they are said of, if any."""

    intervals: tuple[Interval, ...]
    variable: str | None = None


def real_set(node: Expression, evaluator: Evaluator) -> RealSet | None:
    """Return an interval, a union or an inequality in one variable as a set of reals; else None."""
    try:
        return set_with_ends(node, evaluator)
    except NoValueError:
        return None


def set_with_ends(node: Expression, evaluator: Evaluator) -> RealSet | None:
    """Return the set as above. Raises NoValueError where an end has no value."""
    if node == Name("reals"):
        return RealSet((everything(),))
    if not isinstance(node, Apply):
        return None
    if node.op in ("(,)", "[,]", "[,)", "(,]") and len(node.args) == 2:
        low, high = (interval_end(part, evaluator) for part in node.args)
        one = Interval(low, node.op[0] == "[", high, node.op[-1] == "]")
        return RealSet((one,)) if low < high or (low == high and node.op == "[,]") else None
    if node.op == "set":
        points = [interval_end(part, evaluator) for part in node.args]
        return RealSet(union([Interval(point, True, point, True) for point in points]))
    if node.op == "in" and isinstance(node.args[0], Name):
        inner = set_with_ends(node.args[1], evaluator)
        return RealSet(inner.intervals, node.args[0].name) if inner else None
    if node.op == "=" and isinstance(node.args[0], Name):
        value = interval_end(node.args[1], evaluator)
        return RealSet((Interval(value, True, value, True),), node.args[0].name)
    if node.op == "chain":
        return inequality(node, evaluator)
    if node.op in ("cup", "cap", "minus", "or", "and"):
        return combine_sets(node, evaluator)
    return None


def combine_sets(node: Apply, evaluator: Evaluator) -> RealSet | None:
    """Return a union, an intersection or a difference."""
    parts = [set_with_ends(part, evaluator) for part in node.args]
    if node.op in ("or", "and") and not all(isinstance(p, Apply) and p.op in ("chain", "in", "=") for p in node.args):
        return None
    sets = [part for part in parts if part is not None]
    variables = {part.variable for part in sets if part.variable is not None}
    if len(sets) < len(parts) or len(variables) > 1:
        return None
    intervals = sets[0].intervals
    for other in sets[1:]:
        if node.op in ("cup", "or"):
            intervals = union([*intervals, *other.intervals])
        else:
            outside = other.intervals if node.op == "minus" else complement(other.intervals)
            intervals = complement(union([*complement(intervals), *outside]))
    return RealSet(intervals, variables.pop() if variables else None)


def inequality(node: Apply, evaluator: Evaluator) -> RealSet | None:
    """Return the solutions of a chain of inequalities, each linear in the one variable that they have."""
    variables = names(node)
    if len(variables) != 1:
        return None
    (variable,) = variables
    intervals: tuple[Interval, ...] = (everything(),)
    for left, sign, right in chain_links(node):
        if sign not in TURNED:
            return None
        half = half_line(left, sign, right, variable, evaluator)
        if half is None:
            return None
        intervals = complement(union([*complement(intervals), *complement(half)]))
    return RealSet(intervals, variable)


def chain_links(node: Apply) -> list[tuple[Expression, str, Expression]]:
    """Return the relations of a chain, each with what stands left and right of it."""
    signs = [sign.text for sign in node.args[1::2] if isinstance(sign, Words)]
    return list(zip(node.args[0::2], signs, node.args[2::2], strict=False))


def difference(left: Expression, right: Expression) -> Expression:
    """Return what is zero where two sides are equal."""
    return Apply("+", (left, Apply("neg", (right,))))


def positive_form(link: tuple[Expression, str, Expression]) -> tuple[Expression, str]:
    """Return a relation as an expression and what it is to be: > or >= 0, = 0, != 0."""
    left, sign, right = link
    return (
        (difference(right, left), {"<": ">", "<=": ">="}[sign]) if sign[0] == "<" else (difference(left, right), sign)
    )


def half_line(
    left: Expression, sign: str, right: Expression, variable: str, evaluator: Evaluator
) -> tuple[Interval, ...] | None:
    """Return where `left sign right` holds, if their difference is linear in the variable."""
    infinite = [part for part in (left, right) if part in (Name("infinity"), Apply("neg", (Name("infinity"),)))]
    if infinite:  # -oo < x says nothing
        return (everything(),)
    if isinstance(right, Apply) and right.op == "abs" and not names(left):
        left, sign, right = right, TURNED[sign], left
    if isinstance(left, Apply) and left.op == "abs" and not names(right) and sign not in ("=", "!="):
        (inside,) = left.args
        above = half_line(inside, sign, right, variable, evaluator)
        below = half_line(inside, TURNED[sign], Apply("neg", (right,)), variable, evaluator)
        if above is None or below is None:
            return None
        both = [*complement(above), *complement(below)]
        return union([*above, *below]) if sign[0] == ">" else complement(union(both))
    at = [evaluator.value(difference(left, right), {variable: Fraction(place)}) for place in (0, 1, 2, -5)]
    slope = at[1] - at[0]
    if not all(is_real(value) for value in at) or abs(to_real(slope)) < 1e-40:
        return None
    if any(abs(to_real(at[k] - at[0] - slope * place)) > 1e-40 * abs(to_real(slope)) for k, place in ((2, 2), (3, -5))):
        return None
    place = to_real(-at[0] / slope if isinstance(at[0], Fraction) else -to_real(at[0]) / to_real(slope))
    sign = sign if slope > 0 else TURNED[sign]
    point = Interval(place, True, place, True)
    if sign in ("=", "!="):
        return (point,) if sign == "=" else complement((point,))
    closed = sign.endswith("=")
    infinity = mp().inf
    return (Interval(place, closed, infinity, False) if sign[0] == ">" else Interval(-infinity, False, place, closed),)


def everything() -> Interval:
    """Return the whole line."""
    return Interval(-mp().inf, False, mp().inf, False)


def interval_end(node: Expression, evaluator: Evaluator) -> Any:
    """Return an end of an interval: a real number or an infinity. Raises NoValueError for anything else."""
    if node == Name("infinity"):
        return mp().inf
    if node == Apply("neg", (Name("infinity"),)):
        return -mp().inf
    value = evaluator.value(node)
    if not is_real(value):
        raise NoValueError("no end of an interval")
    return to_real(value).real


def union(intervals: list[Interval]) -> tuple[Interval, ...]:
    """Return intervals in order, those that touch made one."""
    merged: list[Interval] = []
    for one in sorted(intervals, key=lambda one: (one.low, not one.low_in)):
        last = merged[-1] if merged else None
        if last and (one.low < last.high or (one.low == last.high and (one.low_in or last.high_in))):
            further = max((last, one), key=lambda part: (part.high, part.high_in))
            merged[-1] = Interval(last.low, last.low_in, further.high, further.high_in)
        else:
            merged.append(one)
    return tuple(merged)


def complement(intervals: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """Return what of the line the intervals leave out."""
    left: list[Interval] = []
    low, low_in = -mp().inf, False
    for one in intervals:
        if low < one.low or (low == one.low and low_in and not one.low_in):
            left.append(Interval(low, low_in, one.low, not one.low_in))
        low, low_in = one.high, not one.high_in
    if low < mp().inf:
        left.append(Interval(low, low_in, mp().inf, False))
    return tuple(left)
