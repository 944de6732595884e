"""The comparison of two answers: symmetric, without exceptions, and false for whatever cannot be read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal, TypeVar

from rlcore_answers.cleaning import clean
from rlcore_answers.evaluation import (
    POINTS,
    Evaluator,
    NoValueError,
    coordinate,
    is_real,
    is_zero,
    mp,
    to_real,
    whole_coordinate,
)
from rlcore_answers.expressions import (
    LISTS,
    PAIRS,
    Apply,
    Expression,
    Name,
    Number,
    Words,
    has,
    has_decimal,
    names,
    walk,
)
from rlcore_answers.normal_form import labelled_alike, normalize, rename_variable, split_label
from rlcore_answers.parser import NeedsSympyError, UnreadableError, parse
from rlcore_answers.real_sets import Interval, chain_links, difference, positive_form, real_set

SET_LIKE = frozenset({"chain", "cup", "cap", "minus", "or", "and", "in"})
ROUNDING = -40  # power of ten, relative, below which two values computed to 60 digits count as equal
FEWEST_POINTS = 2  # at which two functions must agree

Item = TypeVar("Item")
Collection = tuple[str, tuple[Expression, ...], Expression]
"""An operation, its parts, and the expression that they make."""


@dataclasses.dataclass(frozen=True)
class Policy:
    """The choices of a comparison where people disagree.

    Args:
        percent: `dropped`: 50% is 50 and not 1/2. `hundredth`: 50% is 1/2 and not 50.
        units: `dropped`: 5 cm is 5. `compared`: 5 cm is neither 5 nor 5 m; degrees and currency words count as units.
        tolerance: how far a decimal may be from what it is compared with, as a share of the larger of the two; if both
            are finite decimals, at most this much in absolute terms too. Whole numbers and fractions compare exactly.
    """

    percent: Literal["dropped", "hundredth"] = "dropped"
    units: Literal["dropped", "compared"] = "dropped"
    tolerance: float = 1e-6


DEFAULT = Policy()


def compare(left: str, right: str, policy: Policy = DEFAULT) -> bool | None:
    """Return whether two answers are the same; None if only sympy can tell (sums, integrals, limits).

    Equal are: numbers by value, exactly unless one is a decimal; expressions in variables by value at several points;
    equations up to a factor; tuples in order and sets and lists in any; an interval and the inequality that says it;
    "x = 3" and 3; words but for case. A chain of values ("14/3 = 4.67") is any of its sides if they agree to the last
    place, else nothing; with a sign of rounding, or units, its last. "5 m" is 5 to a number and 5m to an expression; a
    time before or after noon is the time without that. False if either cannot be read, or is estimated too large to
    be worth computing.
    """
    trees: list[Expression | None] = []
    for text in (left, right):
        try:
            trees.append(normalize(parse(text), percent=policy.percent, units=policy.units))
        except NeedsSympyError:
            trees.append(None)
        except UnreadableError:
            return False
    first, second = trees
    if first is None or second is None:
        return None if first is not second or clean(left) != clean(right) else True
    return Comparison(policy).same(first, second)


class Comparison:
    """One comparison of two answers, with the work that it may take."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.evaluator = Evaluator()

    def same(self, left: Expression, right: Expression) -> bool:
        """Return whether two trees in normal form are the same answer."""
        if left == right:
            return True
        self.evaluator.steps -= 1  # pairs of parts are work too: long lists have many
        if self.evaluator.steps < 0:
            return False
        for side, other in ((left, right), (right, left)):
            if isinstance(side, Apply) and side.op in ("same", "about"):
                return any(self.same(part, other) for part in self.agreeing_sides(side))
            if isinstance(side, Apply) and side.op == "bare":
                number, product = side.args
                return self.same(product if names(other) or self.policy.units == "compared" else number, other)
            if isinstance(side, Apply) and side.op == "time":
                hour, minute, _ = side.args  # 5:00 pm is 5:00, and 5
                return other == Apply("ratio", (hour, minute)) or (other == hour and minute == Number(Fraction(0)))
        one, two = split_label(left), split_label(right)
        if one[0] is not None or two[0] is not None:
            return self.same_labelled(left, right)
        if isinstance(left, Words) or isinstance(right, Words):
            return False
        ops = [node.op if isinstance(node, Apply) else "" for node in (left, right)]
        if "=" in ops:
            return ops == ["=", "="] and self.same_equation(left, right)
        if any(op in SET_LIKE for op in ops) or Name("reals") in (left, right):
            found = self.same_real_set(left, right)
            if found is not None:
                return found
        if "chain" in ops:
            return ops == ["chain", "chain"] and self.same_inequalities(left, right)
        return self.same_parts(left, right)

    def same_labelled(self, left: Expression, right: Expression) -> bool:
        """Return whether two answers, one of them or both of the form "x = value", are the same."""
        (one, value), (two, other) = split_label(left), split_label(right)
        if one is None or two is None:
            if any(isinstance(node, Apply) and node.op == "in" for node in (left, right)):
                found = self.same_real_set(left, right)
                if found is not None:
                    return found
            if any(
                isinstance(node, Apply) and node.op == "=" and split_label(node)[0] is None for node in (left, right)
            ):
                return self.same_equation(left, right)
            return self.same(value, other)
        if labelled_alike(one, two):
            return self.same(value, other)
        if rename_variable(left, right) is not left:
            return self.same(rename_variable(left, right), right)
        both_equations = all(isinstance(node, Apply) and node.op == "=" for node in (left, right))
        return both_equations and self.same_equation(left, right)

    def agreeing_sides(self, chain: Apply) -> Sequence[Expression]:
        """Return the sides of a chain of values if they are equal, but for the last place of a decimal. If they are
        not, none; of a chain with units or with a sign of rounding the last.
        """
        last = chain.args[-1:]
        try:
            values = [self.evaluator.value(side) for side in chain.args]
        except NoValueError:
            return last
        decimal, first = has_decimal(chain), values[0]
        places = [last_place(side) for side in chain.args]
        for value, place in zip(values[1:], places[1:], strict=True):
            rounded = abs(to_real(first) - to_real(value)) < to_real(max(place, places[0]))
            if not (rounded or self.close(first, value, decimal)):
                return last if chain.op == "about" else ()
        return chain.args

    def same_real_set(self, left: Expression, right: Expression) -> bool | None:
        """Return whether two answers are the same set of real numbers; None if one of them is no such set."""
        one, two = real_set(left, self.evaluator), real_set(right, self.evaluator)
        if one is None or two is None:
            return None
        if None not in (one.variable, two.variable) and one.variable != two.variable:
            return False
        decimal = has_decimal(left) or has_decimal(right)
        return len(one.intervals) == len(two.intervals) and all(
            self.same_interval(a, b, decimal) for a, b in zip(one.intervals, two.intervals, strict=True)
        )

    def same_interval(self, one: Interval, two: Interval, decimal: bool) -> bool:
        """Return whether two intervals have the same ends, and have them in or out alike."""
        if (one.low_in, one.high_in) != (two.low_in, two.high_in):
            return False
        pairs = ((one.low, two.low), (one.high, two.high))
        return all(a == b or self.close(a, b, decimal) for a, b in pairs)

    def same_parts(self, left: Expression, right: Expression) -> bool:
        """Return whether two numbers, expressions or collections are the same."""
        first, second = (node.op if isinstance(node, Apply) else "" for node in (left, right))
        one = left.args if isinstance(left, Apply) else ()
        two = right.args if isinstance(right, Apply) else ()
        products = {first, second} == {"*", "list"} and all(isinstance(part, Name) for part in one + two)
        if products and all(part.name.isupper() for part in one + two if isinstance(part, Name)):
            return self.in_any_order(one, two)  # the choices ABD are A, B, D
        if first in LISTS | {"set"} or second in LISTS | {"set"}:
            return self.same_collection((first, one, left), (second, two, right))
        if first in PAIRS and second in PAIRS:
            return (first == second or len(one) > 2) and self.in_order(one, two)
        if first == second == "cases":
            return self.in_any_order(one, two)
        value = self.same_number(left, right)
        if value is not None:
            return value
        return bool(first) and first == second and self.in_order(one, two)

    def same_collection(self, left: Collection, right: Collection) -> bool:
        """Return whether a list or a set is the same as another, as a tuple, or as the one thing that it holds."""
        (first, one, _), (second, two, other) = left, right
        plain = [op in LISTS or op == "set" for op in (first, second)]
        if plain == [False, True]:
            return self.same_collection(right, left)
        if plain == [True, True]:
            if "set" in (first, second):
                return self.contained(one, two) and self.contained(two, one)
            labels = any(split_label(part)[0] is not None for part in one + two)
            return self.in_order(one, two) or (
                (not labels or all(split_label(part)[0] is not None for part in one + two))
                and self.in_any_order(one, two)
            )
        if second in PAIRS:
            return first in LISTS and second == "(,)" and self.in_order(one, two)
        return first == "set" and len(one) == 1 and self.same(one[0], other)

    def in_order(self, left: Sequence[Expression], right: Sequence[Expression]) -> bool:
        """Return whether two sequences are the same, part by part."""
        return len(left) == len(right) and all(self.same(one, two) for one, two in zip(left, right, strict=True))

    def in_any_order(self, left: Sequence[Expression], right: Sequence[Expression]) -> bool:
        """Return whether each part of one has a part of the other for itself."""
        return pair_off(left, right, self.same)

    def contained(self, left: Sequence[Expression], right: Sequence[Expression]) -> bool:
        """Return whether every part of one is among those of the other."""
        return all(any(self.same(one, two) for two in right) for one in left)

    def same_number(self, left: Expression, right: Expression) -> bool | None:
        """Return whether two expressions have the same value; None if one has none."""
        variables = sorted(names(left) | names(right))
        decimal = has_decimal(left) or has_decimal(right)
        if variables:
            return self.same_function(left, right, variables, decimal)
        try:
            one, two = self.evaluator.value(left), self.evaluator.value(right)
        except NoValueError:
            return None
        return self.close(one, two, decimal)

    def same_function(self, left: Expression, right: Expression, variables: list[str], decimal: bool) -> bool | None:
        """Return whether two expressions agree at every point where both are real; None if there are too few of these.

        An expression that is nowhere real is compared where it is complex.
        """
        imaginary = Name("i") in (*walk(left), *walk(right))
        reals, others = [], []
        for one, two in self.values(left, right, variables):
            if imaginary or (is_real(one) and is_real(two)):
                reals.append(self.close(one, two, decimal))
                if not reals[-1]:
                    return False
            elif not is_real(one) and not is_real(two):
                others.append(self.close(one, two, decimal))
        agreed = reals or others
        return all(agreed) if len(agreed) >= FEWEST_POINTS else None

    def values(self, left: Expression, right: Expression, variables: list[str]) -> list[tuple[Any, Any]]:
        """Return the values of two expressions at the points where both have one."""
        found = []
        place = whole_coordinate if any(has(node, "!", "!!", "binom") for node in (left, right)) else coordinate
        for number in range(POINTS):
            point = {name: place(number, k) for k, name in enumerate(variables)}
            try:
                one = self.evaluator.value(left, point)
                found.append((one, self.evaluator.value(right, point)))
            except NoValueError:
                if self.evaluator.steps < 0:
                    return []
        return found

    def same_equation(self, left: Expression, right: Expression) -> bool:
        """Return whether the differences of the sides of two equations are equal up to a nonzero factor."""
        if not (isinstance(left, Apply) and isinstance(right, Apply) and left.op == right.op == "="):
            return False
        ratio = self.ratio(difference(*left.args), difference(*right.args), has_decimal(left) or has_decimal(right))
        return ratio is not None

    def same_inequalities(self, left: Expression, right: Expression) -> bool:
        """Return whether two chains of inequalities say the same, link by link, in any order."""
        if not (isinstance(left, Apply) and isinstance(right, Apply)):
            return False
        decimal = has_decimal(left) or has_decimal(right)

        def alike(one: tuple[Expression, str], two: tuple[Expression, str]) -> bool:
            ratio = self.ratio(one[0], two[0], decimal) if one[1] == two[1] else None
            return ratio is not None and (one[1] in ("=", "!=") or bool(is_real(ratio) and to_real(ratio).real > 0))

        first, second = ([positive_form(link) for link in chain_links(side)] for side in (left, right))
        return pair_off(first, second, alike)

    def ratio(self, left: Expression, right: Expression, decimal: bool) -> Any:
        """Return the constant factor between two expressions in the same variables, or None if there is none."""
        variables = names(left)
        if not variables or variables != names(right):
            return None
        ratio: Any = None
        agreed = 0
        for one, two in self.values(left, right, sorted(variables)):
            if is_zero(one) or is_zero(two):
                if is_zero(one) and is_zero(two):
                    continue
                return None
            one, two = to_real(one), to_real(two)
            if ratio is not None and not self.close(one / two, ratio, decimal):
                return None
            ratio, agreed = one / two, agreed + 1
        return ratio if agreed > FEWEST_POINTS else None

    def close(self, left: Any, right: Any, decimal: bool) -> bool:
        """Return whether two values are equal: exactly if both are rational, to 40 digits if not, by the tolerance if
        one of the numerals was a decimal.
        """
        exact = isinstance(left, Fraction) and isinstance(right, Fraction)
        if exact and (left == right or not decimal):
            return bool(left == right)
        one, two = to_real(left), to_real(right)
        if not (mp().isfinite(one) and mp().isfinite(two)):
            return bool(one == two)
        scale = max(abs(one), abs(two))
        if not decimal:
            return bool(abs(one - two) <= scale * mp().mpf(10) ** ROUNDING) or (is_zero(one) and is_zero(two))
        if exact and is_finite_decimal(left) and is_finite_decimal(right):
            scale = min(1, scale)
        return bool(abs(one - two) <= self.policy.tolerance * scale)


def pair_off(left: Sequence[Item], right: Sequence[Item], same: Callable[[Item, Item], bool]) -> bool:
    """Return whether each item of one sequence has an item of the other for itself, in any order."""
    if len(left) != len(right):
        return False
    waiting = list(right)
    for one in left:
        place = next((k for k, two in enumerate(waiting) if same(one, two)), None)
        if place is None:
            return False
        del waiting[place]
    return True


def last_place(node: Expression) -> Fraction:
    """Return what the last digit of a decimal is worth; 0 of anything else."""
    if isinstance(node, Apply) and node.op == "neg":
        return last_place(node.args[0])
    if not (isinstance(node, Number) and node.decimal):
        return Fraction(0)
    return next((Fraction(1, 10**k) for k in range(30) if 10**k % node.value.denominator == 0), Fraction(0))


def is_finite_decimal(value: Fraction) -> bool:
    """Return whether a rational number can be written out in decimals."""
    below = value.denominator
    below >>= (below & -below).bit_length() - 1
    return pow(10, below.bit_length(), below) == 0 if below > 1 else True
