"""Right or wrong by the worth of an arithmetic expression: the grade of Countdown and of the game of 24."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from rlcore.data import target_of
from rlcore_rewards.calling import bounded, checks_rows
from rlcore_rewards.numeric import parse_number

# An expression is what a model wrote, so it is read here, never evaluated by Python. Its length bounds the depth of
# the recursion and the size of every number on the way.
LONGEST_EXPRESSION = 128  # characters
# A number is written as Python writes it: 07 is none, nor are digits of other scripts.
TOKEN = re.compile(r"0(?![0-9])|[1-9][0-9]*|[-+*/()]", re.ASCII)


def check_numbers(data: Mapping[str, Any]) -> None:
    """Raise ValueError if the target, or one of the numbers to use, is no number."""
    for number in (target_of(data), *(data.get("numbers") or ())):
        parse_number(number)


@bounded
@checks_rows(check_numbers)
def expression_answer(completion: str, target: Any, numbers: Sequence[Any] | None = None) -> float:
    """Return 1.0 if the completion is an expression worth the target that uses each of `numbers` once, else 0.0.

    An expression has whole numbers, + - * / and round brackets, with the usual precedence; there is no sign before a
    number and no power. Spaces do not count. Worth is exact: 8/3*3 is 8. Dividing by zero is worth nothing. Without
    `numbers` any may be used. A bare number is an expression too.

    Args:
        completion: the whole answer; any other text in it makes it wrong.
        target: a number, or a text that is one.
        numbers: what may be used, each as often as it stands there; all of it must be.

    Raises:
        ValueError: the target, or one of `numbers`, is no number, so that no completion could be right.
    """
    wanted = parse_number(target)
    allowed = None if numbers is None else sorted(parse_number(number) for number in numbers)
    tokens = tokenize(completion)
    if tokens is None:
        return 0.0
    if allowed is not None and sorted(Fraction(token) for token in tokens if token.isdigit()) != allowed:
        return 0.0
    return float(evaluate(tokens) == wanted)


def tokenize(text: str) -> list[str] | None:
    """Return the numbers and signs of an expression, in order, or None if the text has anything else or is too long."""
    text = text.replace(" ", "")
    if len(text) > LONGEST_EXPRESSION:
        return None
    tokens = TOKEN.findall(text)
    # What the pattern passed over is missing here.
    return tokens if "".join(tokens) == text else None


def evaluate(tokens: Sequence[str]) -> Fraction | None:
    """Return the value of an expression; None if the tokens are no expression, or it divides by zero."""
    parser = ArithmeticParser(tokens)
    try:
        value = parser.sum()
    except (NotAnExpressionError, ZeroDivisionError):
        return None
    return value if parser.next is None else None


class NotAnExpressionError(Exception):
    """The tokens do not stand as an expression's do."""


class ArithmeticParser:
    """Reads a sum of products of numbers and bracketed sums, from left to right."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self.place = 0

    @property
    def next(self) -> str | None:
        """Return the token that stands next, None at the end."""
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def take(self) -> str | None:
        """Return the next token and go on behind it."""
        token = self.next
        self.place += 1
        return token

    def sum(self) -> Fraction:
        """Return a product, and further ones added or subtracted."""
        value = self.product()
        while self.next in ("+", "-"):
            value = value + self.product() if self.take() == "+" else value - self.product()
        return value

    def product(self) -> Fraction:
        """Return a factor, and further ones multiplied or divided by."""
        value = self.factor()
        while self.next in ("*", "/"):
            value = value * self.factor() if self.take() == "*" else value / self.factor()
        return value

    def factor(self) -> Fraction:
        """Return a number or a sum in brackets."""
        token = self.take()
        if token == "(":
            value = self.sum()
            if self.take() == ")":
                return value
        elif token is not None and token.isdigit():
            return Fraction(token)
        raise NotAnExpressionError
