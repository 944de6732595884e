"""Comparison of a returned value, or of printed output, with what a data set expects."""

from __future__ import annotations

import io
import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

TOLERANCE = 1e-6
"""Of numbers with a fraction, relative where they are larger than 1, else absolute."""
ROOM = 1 << 16

# A number of which at least one side has a fraction or an exponent; whole numbers are compared as they are written.
NUMBER = re.compile(r"[+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)


def is_near(actual: float, expected: float) -> bool:
    """Return whether two numbers agree within `TOLERANCE`; infinities and NaN only with themselves."""
    if math.isnan(expected):
        return math.isnan(actual)
    return actual == expected or abs(actual - expected) <= TOLERANCE * max(1.0, abs(expected)) < math.inf


def same_value(actual: Any, expected: Any) -> bool:
    """Return whether a value is what a data set in JSON expects.

    Tuples are lists, and keys of dicts are text, as in JSON; True is 1, as in Python, and 1 is not "1". Floats agree
    within `TOLERANCE`, also with whole numbers. An expected list of one entry also means that entry: some data sets
    wrap every result.
    """
    try:
        ours = as_json(actual)
        wrapped = isinstance(expected, list) and len(expected) == 1
        return same(ours, expected) or (wrapped and same(ours, expected[0]))
    except RecursionError:
        return False


def as_json(value: Any) -> Any:
    """Return a value as JSON has it, as far as it can be one."""
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {key_text(key): as_json(item) for key, item in value.items()}
    return value


def key_text(key: Any) -> Any:
    """Return a key as JSON writes it."""
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    # Beyond this many bits Python refuses to write a number out.
    return str(key) if isinstance(key, float) or (isinstance(key, int) and key.bit_length() < 10_000) else key


def same(actual: Any, expected: Any) -> bool:
    """Return whether two values of JSON are the same."""
    if isinstance(expected, list):
        return isinstance(actual, list) and len(actual) == len(expected) and all(map(same, actual, expected))
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and actual.keys() == expected.keys()
            and all(same(actual[key], expected[key]) for key in expected)
        )
    if isinstance(expected, int | float) and isinstance(actual, int | float):
        if isinstance(expected, int) and isinstance(actual, int):
            return actual == expected
        try:
            return is_near(float(actual), float(expected))
        except OverflowError:
            return False
    return type(actual) is type(expected) and bool(actual == expected)


def same_output(actual: str, expected: str) -> bool:
    """Return whether two outputs agree: line by line, without empty lines, and in a line word by word.

    The space between words does not count, nor at the ends of a line; upper and lower case do. Two words that are
    numbers, not both whole, agree within `TOLERANCE`. An output of more than twice the
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
