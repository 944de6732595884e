"""Plain data as text: all that ever passes between a solution and what judges it.

Only values of Python's own types come out of `loads`, each of exactly that type: whatever class the sender had, its
methods stay behind. What is no plain data is handed over as a number that stands for it.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

LARGEST = 1 << 63  # beyond, numbers go in base 16: reading base 10 takes time that grows with the square


class NotPlainError(ValueError):
    """A value that cannot be sent, or a text that is none of ours."""


class TooDeepError(NotPlainError):
    """A value that is nested too deeply, or holds itself."""


def dumps(value: Any, hold: Callable[[Any], int]) -> str:
    """Return the value as text. `hold` gives the number that stands for what is no plain data, or raises.

    Raises:
        TooDeepError: it is nested too deeply.
    """
    try:
        return json.dumps(pack(value, hold), separators=(",", ":"))
    except RecursionError as error:
        raise TooDeepError("the value is nested too deeply, or holds itself") from error


def pack(value: Any, hold: Callable[[Any], int]) -> Any:
    """Return the value made of what JSON has; dicts of one entry name the type of the rest."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        whole = int.__int__(value)
        return whole if -LARGEST < whole < LARGEST else {"int": hex(whole)}
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, list):
        return [pack(item, hold) for item in list.__iter__(value)]
    if isinstance(value, dict):
        kind = next(one for one in (Counter, OrderedDict, dict) if isinstance(value, one))
        return {kind.__name__: [[pack(key, hold), pack(item, hold)] for key, item in dict.items(value)]}
    for name, (type_, take, _) in TYPES.items():
        if isinstance(value, type_):
            parts = take(value)
            return {name: [pack(part, hold) for part in parts] if isinstance(parts, list) else parts}
    if hasattr(type(value), "dtype") and value.shape == ():  # a scalar of numpy
        return pack(value.item(), hold)
    return {"held": hold(value)}


TYPES: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "tuple": (tuple, lambda value: list(tuple.__iter__(value)), tuple),
    "set": (set, lambda value: list(set.__iter__(value)), set),
    "frozenset": (frozenset, lambda value: list(frozenset.__iter__(value)), frozenset),
    "bytes": (bytes, lambda value: bytes(value).hex(), bytes.fromhex),
    "bytearray": (bytearray, lambda value: bytes(value).hex(), bytearray.fromhex),
    "complex": (complex, lambda value: [value.real, value.imag], lambda parts: complex(*parts)),
    "range": (range, lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts)),
    "slice": (slice, lambda value: [value.start, value.stop, value.step], lambda parts: slice(*parts)),
    "deque": (deque, lambda value: [list(deque.__iter__(value)), value.maxlen], lambda parts: deque(*parts)),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),  # a datetime is a date too: it comes first
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (timedelta, lambda one: [one.days, one.seconds, one.microseconds], lambda parts: timedelta(*parts)),
    # Two numbers: a text could be one that takes hours.
    "Fraction": (Fraction, lambda one: [one.numerator, one.denominator], lambda parts: Fraction(parts[0], parts[1])),
    "Decimal": (Decimal, str, Decimal),
}
"""The types that JSON has not: by name the type, what it is sent as (text, or a list of values), and how it is made."""
MAKE: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "dict": dict,
    "Counter": lambda pairs: Counter(dict(pairs)),
    "OrderedDict": OrderedDict,
    **{name: make for name, (_, _, make) in TYPES.items()},
}


def loads(text: str | bytes, held: Callable[[int], Any]) -> Any:
    """Return the value of a text. `held` gives what a number stands for, or raises.

    Raises:
        NotPlainError: `dumps` does not write such a text.
    """
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotPlainError(f"no plain data: {error}") from error
    return unpack_checked(parsed, held)


def unpack_checked(parsed: Any, held: Callable[[int], Any]) -> Any:
    """Return the value of a parsed text. Raises NotPlainError as `loads` does."""
    try:
        return unpack(parsed, held)
    except NotPlainError:
        raise
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, LookupError) as error:
        raise NotPlainError(f"no plain data: {error}") from error


def unpack(value: Any, held: Callable[[int], Any]) -> Any:
    """Return the value that `pack` made this of."""
    if isinstance(value, list):
        return [unpack(item, held) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise NotPlainError(f"no plain data: a table of {len(value)} entries")
    [(kind, inner)] = value.items()
    if kind == "held":
        if type(inner) is not int:
            raise NotPlainError("no plain data: what is held has a number")
        return held(inner)
    if kind not in MAKE:
        raise NotPlainError(f"no plain data: type {kind:.40}")
    return MAKE[kind](unpack(inner, held) if isinstance(inner, list) else inner)


def refuse_held(value: Any) -> int:
    """Raise NotPlainError: data sets and verdicts hold plain data only."""
    raise NotPlainError(f"{type(value).__name__} {value!r:.60} is no plain data")
