"""Comparison of a program's output with the expected one."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator

from rlcore_sandbox.inside.values import is_near

ROOM = 1 << 16

# A number of which at least one side has a fraction or an exponent; whole numbers are compared as they are written.
NUMBER = re.compile(r"[+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)


def same_output(actual: str, expected: str) -> bool:
    """Return whether two outputs agree: line by line, without empty lines, and in a line word by word.

    The space between words does not count, nor at the ends of a line; upper and lower case do. Two words that are
    numbers, not both whole, agree within `TOLERANCE` of `sandbox.inside.values`. An output of more than twice the
    expected length and 64 KiB is another, whatever it consists of.
    """
    if len(actual) > 2 * len(expected) + ROOM:
        return False
    return all(
        len(ours) == len(theirs) and all(map(same_word, ours, theirs))
        for ours, theirs in itertools.zip_longest(lines(actual), lines(expected), fillvalue=())
    )


def lines(text: str) -> Iterator[list[str]]:
    """Yield the words of each line that has any."""
    return (words for words in map(str.split, io.StringIO(text, newline=None)) if words)


def same_word(actual: str, expected: str) -> bool:
    """Return whether two words are the same, or the same number."""
    if actual == expected:
        return True
    if not (NUMBER.fullmatch(actual) and NUMBER.fullmatch(expected)):
        return False
    if WHOLE.fullmatch(actual) and WHOLE.fullmatch(expected):
        return False
    return is_near(float(actual), float(expected))
