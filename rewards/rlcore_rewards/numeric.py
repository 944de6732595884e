"""Right or wrong by the number that a completion ends in."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

from rlcore_rewards.calling import bounded, checks_target
from rlcore_rewards.text import alternatives

# Digits with commas only where thousands stand ("1,200" is one number, "1,2" two); not glued to a word or a version
# ("x2", "1.5.2"). A minus is a sign only where nothing stands before it that it could be subtracted from ("10-4").
NUMBER = re.compile(
    r"(?P<sign>(?<![\w)\]}%.])[-\u2212])?(?:[$€£](?P<inner>-)?)?"
    r"(?<!\w)(?<![0-9]\.)"
    r"(?P<digits>(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|(?<!\.)\.[0-9]+)"
    r"(?:/(?P<below>[0-9]+)(?![0-9.,/]))?"
)
MARK = "####"
LONGEST_NUMBER = 1000  # digits; more is no answer to anything, and Python refuses to read it


def target_numbers(target: Any) -> list[Fraction]:
    """Return the numbers that a target stands for. Raises ValueError if one is no number, or there is none."""
    return [parse_number(item) for item in alternatives(target, expected="a number")]


@bounded
@checks_target(target_numbers)
def numeric_answer(completion: str, target: Any) -> float:
    """Return 1.0 if the completion's answer equals the target as a number, else 0.0.

    The answer is the first number after the last `####`, or without that mark the last number. Numbers compare
    exactly, as rationals: "18.00", "$18", "18." and "+18" are 18, "1,200" is 1200. "1/2" is read as one number only
    if the target is no integer, so that an undone division ("24/2") is not taken for its result. A list of targets
    means any of them. `gsm8k` also reads boxes, `<answer>` tags and "the answer is".

    Raises:
        ValueError: the target is no number, so that no completion could be right.
    """
    numbers = target_numbers(target)
    return float(any(find_number(completion, fractions=number.denominator > 1) == number for number in numbers))


def find_number(text: str, *, fractions: bool = False) -> Fraction | None:
    """Return the number that a text gives as its answer, or None. `fractions` reads "1/2" as one number.

    A number of more than 1,000 digits is no answer. Of an undone division ("24/2") that is not read as one number the
    first number counts behind a mark, else the last.
    """
    _, mark, tail = text.rpartition(MARK)
    found = list(NUMBER.finditer(tail))
    if not found:
        return None
    chosen = found[0] if mark else found[-1]
    above, below = chosen["digits"].replace(",", ""), chosen["below"]
    if below and not fractions and not mark:
        return Fraction(below) if len(below) <= LONGEST_NUMBER else None
    if len(chosen["digits"]) > LONGEST_NUMBER:
        return None
    value = -Fraction(above) if chosen["sign"] or chosen["inner"] else Fraction(above)
    if not below or not fractions:
        return value
    return value / int(below) if len(below) <= LONGEST_NUMBER and int(below) else None


def parse_number(target: Any) -> Fraction:
    """Return a target as an exact number: a number, or a text that is one (with `####`, `$`, commas or a final period
    or not).

    Raises:
        ValueError: it is anything else.
    """
    if isinstance(target, str):
        text = target.rpartition(MARK)[2].strip().rstrip(".%").strip()
        match = NUMBER.fullmatch(text.removeprefix("+"))
        value = find_number(text, fractions=True) if match else None
        if value is not None:
            return value
    elif (
        isinstance(target, int | float | Fraction | Decimal) and not isinstance(target, bool) and math.isfinite(target)
    ):
        return Fraction(str(target))  # the number as it is written: 0.1 is one tenth
    raise ValueError(f"the target {target!r:.80} is no number")
