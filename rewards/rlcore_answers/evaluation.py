"""The value of a tree: exact where it is rational, else to 60 digits; never more work than is allowed."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from rlcore_answers.expressions import Apply, Expression, Name, Number

ANGLES = (
    *("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "acot", "asec", "acsc"),
    *("asinh", "acosh", "atanh"),
)
DIGITS = 60  # of what is not rational
LARGEST_BITS = 20_000  # of a numerator, a denominator or a power of two: about 6,000 digits
LARGEST_ANGLE, LARGEST_EXPONENT = 2_000, 15  # bits of the argument of a periodic and of an exponential function
MOST_STEPS = 20_000  # nodes evaluated for one comparison, of at most some 30 microseconds each
BITS_A_STEP = 500  # of a rational result: so many more count as one more step

Value = Any
"""A Fraction, or an mpmath number where the worth is not rational."""


class NoValueError(Exception):
    """The tree has no number for a value: a word, a division by zero, something never heard of."""


class TooLargeError(NoValueError):
    """The value, or the way to it, is estimated to be larger than anything is worth computing."""


_of_thread = threading.local()


def mp() -> Any:
    """Return this thread's own mpmath context, imported at first use: a shared one changes its precision meanwhile."""
    context = getattr(_of_thread, "context", None)
    if context is None:
        from mpmath import MPContext

        context = _of_thread.context = MPContext()
        context.dps = DIGITS
    return context


class Evaluator:
    """Evaluates trees, and counts the work of all it is asked for against one limit.

    Size is estimated before anything is computed: a power by the size of its base times its exponent, a factorial by
    its argument. A tower of exponents is therefore refused where its second step would begin.
    """

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self.steps = steps

    def value(self, node: Expression, point: Mapping[str, Value] | None = None) -> Value:
        """Return the value of a tree with its variables at a point.

        Raises:
            NoValueError: it has no value there.
            TooLargeError: it is too large, or the work of this evaluator is used up.
        """
        self.steps -= 1
        if self.steps < 0:
            raise TooLargeError("more steps than a comparison may take")
        if isinstance(node, Number):
            return node.value
        if isinstance(node, Name):
            return name_value(node.name, point or {})
        if not isinstance(node, Apply):
            raise NoValueError(f"{node} is no number")
        operation = OPERATIONS.get(node.op)
        if operation is None:
            raise NoValueError(f"{node.op!r} gives no number")
        values = [self.value(part, point) for part in node.args]
        try:
            value = check_size(operation(*values))
        except NoValueError:
            raise
        except (ArithmeticError, ValueError, TypeError) as error:  # what mpmath says of a pole or a branch point
            raise NoValueError(f"{node.op}: {error}") from error
        if isinstance(value, Fraction):  # long numbers are more work
            self.steps -= (value.numerator.bit_length() + value.denominator.bit_length()) // BITS_A_STEP
        return value


def name_value(name: str, point: Mapping[str, Value]) -> Value:
    """Return the value of a constant or a variable."""
    if name in point:
        return point[name]
    if name == "pi":
        return +mp().pi
    if name == "e":
        return +mp().e
    if name == "i":
        return mp().mpc(0, 1)
    raise NoValueError(f"{name} has no value")


def check_size(value: Value) -> Value:
    """Return the value, if it is of a size to go on with."""
    if isinstance(value, Fraction):
        if value.numerator.bit_length() > LARGEST_BITS or value.denominator.bit_length() > LARGEST_BITS:
            raise TooLargeError("a rational number of too many digits")
        return value
    if isinstance(value, int):
        return Fraction(value)
    context = mp()
    if not context.isfinite(value):
        raise NoValueError("not finite")
    if value and abs(context.mag(value)) > LARGEST_BITS:
        raise TooLargeError("beyond the largest power of two")
    return value.real if isinstance(value, context.mpc) and value.imag == 0 else value


def to_real(value: Value) -> Value:
    """Return the value as an mpmath number."""
    if isinstance(value, Fraction):
        return integer_to_real(value.numerator) / integer_to_real(value.denominator)
    return value


def integer_to_real(value: int) -> Value:
    """Return an integer as an mpmath number, fast also where it ends in many zero bits."""
    zeros = (value & -value).bit_length() - 1 if value else 0
    return mp().ldexp(value >> zeros, zeros)


def is_real(value: Value) -> bool:
    """Return whether a value has no imaginary part but for rounding."""
    if isinstance(value, Fraction) or not isinstance(value, mp().mpc):
        return True
    return bool(abs(value.imag) <= abs(value) * mp().mpf(10) ** (15 - DIGITS))


def binary_operation(operation: Callable[[Value, Value], Value]) -> Callable[..., Value]:
    """Return an operation of two, over any number; on Fractions where all are, else on mpmath numbers."""

    def over(*values: Value) -> Value:
        total = values[0]
        for value in values[1:]:
            if isinstance(total, Fraction) != isinstance(value, Fraction):
                total, value = to_real(total), to_real(value)
            total = check_size(operation(total, value))
        return total

    return over


def divide(above: Value, below: Value) -> Value:
    """Return a quotient. Raises NoValueError for a divisor that is zero, or nothing but rounding."""
    if is_zero(below):
        raise NoValueError("division by zero")
    return binary_operation(lambda a, b: a / b)(above, below)


def is_zero(value: Value) -> bool:
    """Return whether a value is zero, or so small that only rounding can have left it."""
    return bool(value == 0) or (not isinstance(value, Fraction) and bool(mp().mag(value) < -150))


def power(base: Value, exponent: Value) -> Value:
    """Return a power, its size estimated first. A negative base has a real one for an odd denominator."""
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if base == 0:
            if exponent < 0 or exponent == 0:
                raise NoValueError("0 to the power of nothing or less")
            return base
        if exponent.denominator == 1:
            if exponent.numerator.bit_length() > 64:
                raise TooLargeError("an exponent of more than 64 bits")
            size = max(base.numerator.bit_length(), base.denominator.bit_length())
            if base not in (1, -1) and (size - 1) * abs(exponent.numerator) > LARGEST_BITS:
                raise TooLargeError("a power of too many digits")
            return base**exponent.numerator
        if exponent.denominator < 1000:
            index, whole = exponent.denominator, exponent.numerator
            if base > 0 or index % 2:
                return power(root(base, Fraction(index)), Fraction(whole))
    above, below = to_real(base), to_real(exponent)
    if is_zero(above):
        raise NoValueError("a power of nothing")
    if abs(mp().mag(above)) * abs(below) > LARGEST_BITS:
        raise TooLargeError("a power beyond the largest")
    return above**below


def root(value: Value, index: Value) -> Value:
    """Return a root: exact where it is, the real one of a negative number where the index is odd."""
    if not isinstance(index, Fraction):
        return power(value, divide(Fraction(1), index))
    if index.denominator != 1 or not 0 < abs(index) < 1000:
        return power(value, 1 / index) if index else divide(value, Fraction(0))
    if index < 0:
        return divide(Fraction(1), root(value, -index))
    degree = index.numerator
    if isinstance(value, Fraction):
        if value < 0 and degree % 2:
            return -root(-value, index)
        if value >= 0:
            above, below = exact_root(value.numerator, degree), exact_root(value.denominator, degree)
            if above is not None and below is not None:
                return Fraction(above, below)
    elif degree % 2 and is_real(value) and value.real < 0:
        return -mp().root(-value.real, degree)
    return mp().root(to_real(value), degree)


def exact_root(value: int, degree: int) -> int | None:
    """Return the whole root of a whole number, if it has one."""
    if degree == 2:
        found = math.isqrt(value)
        return found if found * found == value else None
    if value in (0, 1):
        return value
    guess = int(mp().nint(mp().root(value, degree)))
    return guess if guess.bit_length() * degree < LARGEST_BITS + degree and guess**degree == value else None


def factorial(value: Value, step: int = 1) -> Value:
    """Return the factorial of a whole number; with a step of 2 the double one. Its size is estimated first."""
    count = whole_number(value)
    if count < 0:
        raise NoValueError("a factorial of less than nothing")
    if count > 2 and count * count.bit_length() > step * LARGEST_BITS:
        raise TooLargeError("a factorial of too many digits")
    return Fraction(math.factorial(count) if step == 1 else math.prod(range(count, 0, -step)))


def binomial(above: Value, below: Value) -> Value:
    """Return the binomial coefficient n over k of whole numbers."""
    n, k = whole_number(above), whole_number(below)
    if n < 0:
        raise NoValueError("a binomial of less than nothing")
    if not 0 <= k <= n:
        return Fraction(0)
    k = min(k, n - k)
    if k * n.bit_length() > LARGEST_BITS:
        raise TooLargeError("a binomial of too many digits")
    return Fraction(math.comb(n, k))


def whole_number(value: Value) -> int:
    """Return a whole number. Raises NoValueError for any other."""
    if isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    raise NoValueError(f"{value} is no whole number")


def logarithm(value: Value, base: Value = Fraction(10)) -> Value:
    """Return the logarithm to a base, exact where a power is."""
    if isinstance(value, Fraction) and isinstance(base, Fraction) and value > 0 and base > 1:
        guess = mp().nint(mp().log(to_real(value)) / mp().log(to_real(base)))
        if abs(guess) < 1000 and power(base, Fraction(int(guess))) == value:
            return Fraction(int(guess))
    if value == 0 or base in (0, 1):
        raise NoValueError("no logarithm")
    return mp().log(to_real(value)) / mp().log(to_real(base))


def real_function(name: str, largest: int) -> Callable[[Value], Value]:
    """Return a function of mpmath whose value or work grows with its argument, which has at most so many bits."""

    def function(value: Value) -> Value:
        number = to_real(value)
        if number and mp().mag(number) > largest:
            raise TooLargeError("an argument beyond the largest")
        found = getattr(mp(), name)(number)
        return Fraction(0) if name in ANGLES and is_zero(found) else found

    return function


def rounding_function(down: bool) -> Callable[[Value], Value]:
    """Return rounding to the next whole number below or above."""

    def function(value: Value) -> Value:
        if isinstance(value, Fraction):
            return Fraction(math.floor(value) if down else math.ceil(value))
        if not is_real(value):
            raise NoValueError("no rounding of what is not real")
        return Fraction(int(mp().floor(value.real) if down else mp().ceil(value.real)))

    return function


def integer_function(function: Callable[..., int]) -> Callable[..., Value]:
    """Return a function of whole numbers."""
    return lambda *values: Fraction(function(*(whole_number(value) for value in values)))


def extreme_function(choose: Callable[..., Value]) -> Callable[..., Value]:
    """Return the largest or the smallest of real numbers."""

    def function(*values: Value) -> Value:
        if not all(is_real(value) for value in values):
            raise NoValueError("no order among what is not real")
        return choose(values, key=lambda value: to_real(value).real)

    return function


OPERATIONS: dict[str, Callable[..., Value]] = {
    "+": binary_operation(lambda a, b: a + b),
    "*": binary_operation(lambda a, b: a * b),
    "/": divide,
    "neg": lambda value: -value,
    "^": power,
    "root": root,
    "!": factorial,
    "!!": lambda value: factorial(value, 2),
    "binom": binomial,
    "abs": abs,
    "floor": rounding_function(down=True),
    "ceil": rounding_function(down=False),
    "gcd": integer_function(math.gcd),
    "lcm": integer_function(math.lcm),
    "max": extreme_function(max),
    "min": extreme_function(min),
    "ln": lambda value: logarithm(value, mp().e),
    "log": logarithm,
    "radians": lambda value: to_real(value) * mp().pi / 180,
    "mod": lambda value, base: Fraction(whole_number(value) % whole_number(base)),
    **{name: real_function(name, LARGEST_ANGLE) for name in ANGLES},
    **{name: real_function(name, LARGEST_EXPONENT) for name in ("exp", "sinh", "cosh", "tanh")},
}


POINTS = 8
SPREAD = (1.0, 2.5, 0.45, -1.0, 7.0, -0.35)
"""Sizes of the points; the last two are at whole numbers, where parity shows."""


def coordinate(point: int, variable: int) -> Any:
    """Return a coordinate of a point, different for each variable."""
    if point >= len(SPREAD):
        return Fraction(2 + variable + (point - len(SPREAD)) * 3) * (-1 if point % 2 else 1)
    share = ((variable + 1) * 0.6180339887498949 + point * 0.4142135623730951) % 1.0
    return mp().mpf(SPREAD[point] * (0.55 + 0.9 * share))


def whole_coordinate(point: int, variable: int) -> Fraction:
    """Return a coordinate where factorials and binomials have a value: whole, odd or even, either of two the larger."""
    return Fraction((3 + 3 * variable if point % 2 else 15 - 3 * variable) + point // 2)
