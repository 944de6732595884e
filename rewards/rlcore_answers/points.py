"""Points at which two expressions in variables are compared: fixed, and nothing that a formula would single out."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from rlcore_answers.evaluation import mp

POINTS = 8
SPREAD = (1.0, 2.5, 0.45, -1.0, 7.0, -0.35)
"""Sizes of the points; the last two are at whole numbers, where parity shows."""


def coordinate(point: int, variable: int) -> Any:
    """A coordinate of a point, different for each variable."""
    if point >= len(SPREAD):
        return Fraction(2 + variable + (point - len(SPREAD)) * 3) * (-1 if point % 2 else 1)
    share = ((variable + 1) * 0.6180339887498949 + point * 0.4142135623730951) % 1.0
    return mp().mpf(SPREAD[point] * (0.55 + 0.9 * share))


def whole_coordinate(point: int, variable: int) -> Fraction:
    """A coordinate where factorials and binomials have a value: whole, odd or even, either of two the larger."""
    return Fraction((3 + 3 * variable if point % 2 else 15 - 3 * variable) + point // 2)
