"""JSON found in text: what a model wrote around it does not matter, and no text makes the search slow."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

Where = Literal["last", "first", "whole"]

LONGEST_TEXT = 1_000_000  # characters; a longer text holds no answer
DEEPEST = 100  # objects and arrays within one another
LONGEST_NUMBER = 300  # characters: a whole number of more is beyond what a float holds
FENCE = re.compile(r"^[ \t]*```[^\n`]*$", re.MULTILINE)
OPENING = re.compile(r"[{\[]")
TOKEN = re.compile(
    r"[ \t\r\n]*(?:"
    r'(?P<string>"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+")'
    r"|(?P<scalar>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?|true|false|null)"
    r"|(?P<sign>[][{}:,])"
    r")"
)


class FoundJson(NamedTuple):
    """A value, and the text that it was read from."""

    value: Any
    text: str


def extract_json(text: str, *, where: Where = "last", of: type | None = None) -> FoundJson | None:
    """Return the JSON value in a text, or None if there is none.

    An object or array counts that is complete, outside of any other, anywhere in the text. If one of the blocks
    between ``` fences holds any, only those in blocks count: prose around them has brackets too ("see [1]"). A value
    is read strictly, and one with a key that stands twice in an object is no value.

    Args:
        text: at most a million characters, else nothing is found.
        where: the "last" value or the "first"; or the "whole" text, but for space around, which may be a scalar too.
        of: `dict` or `list`, if only objects or only arrays count.

    The time is linear in the length of the text, whatever is open, cut or nested in it.
    """
    if len(text) > LONGEST_TEXT:
        return None
    if where == "whole":
        found = parse_json(text.strip())
        return found if found and (of is None or isinstance(found.value, of)) else None
    for pieces in (list(blocks(text)), [text]):
        spans = [piece[start:end] for piece in pieces for start, end in values_in(piece)]
        if of is not None:
            spans = [span for span in spans if span[0] == ("{" if of is dict else "[")]
        if spans:
            return parse_json(spans[-1 if where == "last" else 0])
    return None


def parse_json(text: str) -> FoundJson | None:
    """Return the text as JSON; None if it is none, or has what readers differ on: a key twice, NaN, 1e999."""
    try:
        value = json.loads(
            text,
            object_pairs_hook=keys_once,
            parse_constant=refuse_constant,
            parse_float=finite,
            parse_int=whole_number,
        )
        return FoundJson(value, text)
    except (ValueError, RecursionError):
        return None


def keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's pairs as a dict. Raises ValueError for a key that stands twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def finite(digits: str) -> float:
    """Return a number with a point or exponent. Raises ValueError for one that no float holds."""
    value = float(digits)
    return value if math.isfinite(value) else refuse_constant(digits[:20])


def whole_number(digits: str) -> int:
    """Return a whole number. Raises ValueError for too long a one."""
    return int(digits) if len(digits) <= LONGEST_NUMBER else refuse_constant(digits[:20])


def refuse_constant(constant: str) -> Any:
    """Raise ValueError for NaN, Infinity and numbers that no float holds."""
    raise ValueError(f"{constant} is no number that every reader of JSON knows")


def blocks(text: str) -> Iterator[str]:
    """Yield what stands between fences of ```; the last block may lack its end."""
    lines = list(FENCE.finditer(text))
    for index in range(0, len(lines), 2):
        closed = index + 1 < len(lines)
        yield text[lines[index].end() : lines[index + 1].start() if closed else len(text)]


def values_in(text: str) -> list[tuple[int, int]]:
    """Return where the outermost complete objects and arrays of a text start and end, in order.

    One pass: an opening bracket starts a value, and at the first token that cannot stand where it does every value
    still open is given up at once, since each holds that token; what was complete inside of them stays.
    """
    found: list[tuple[int, int]] = []
    still_open: list[tuple[int, str]] = []  # where each open value starts, and its bracket
    expected = "value"
    place = 0
    while True:
        if not still_open:
            opening = OPENING.search(text, place)
            if opening is None:
                return found
            place, expected = opening.start(), "value"
        token = TOKEN.match(text, place)
        kind = token_kind(token)
        closes = kind in ("}", "]")
        fits = kind in ALLOWED[expected] and not (closes and CLOSING[still_open[-1][1]] != kind)
        if token is None or not fits or (kind in CLOSING and len(still_open) == DEEPEST):
            still_open.clear()
            continue
        place = token.end()
        if kind in CLOSING:
            still_open.append((place - 1, kind))
            expected = "key or end" if kind == "{" else "value or end"
        elif closes:
            start, _ = still_open.pop()
            while found and found[-1][0] > start:
                found.pop()
            found.append((start, place))
            expected = "comma or end"
        elif kind == ",":
            expected = "key" if still_open[-1][1] == "{" else "value"
        elif kind == ":":
            expected = "value"
        else:
            expected = "colon" if expected in ("key", "key or end") else "comma or end"


CLOSING = {"{": "}", "[": "]"}
ALLOWED = {
    "value": {"{", "[", "string", "scalar"},
    "value or end": {"{", "[", "string", "scalar", "]"},
    "key": {"string"},
    "key or end": {"string", "}"},
    "colon": {":"},
    "comma or end": {",", "}", "]"},
}
"""Which tokens may follow, by what is expected."""


def token_kind(token: re.Match[str] | None) -> str:
    """Return what a token is: "string", "scalar", or the sign itself; empty for no token or too long a number."""
    if token is None:
        return ""
    if token["sign"]:
        return token["sign"]
    if token["string"] is not None:
        return "string"
    return "scalar" if len(token["scalar"]) <= LONGEST_NUMBER else ""
