"""Coercion: a value becomes what an annotation asks for, or an error says what was asked and what was found.

The command line, files and Python share it: `rlcore.component.bind` judges its options here too. pydantic is imported
when the first value is judged, so that asking for help does not pay for it.
"""

from __future__ import annotations

import functools
import math
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from rlcore.errors import ConfigError, nearest

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

LARGEST = 2**63 - 1


def coerce(annotation: Any, value: Any, key: str, *, text: str | None = None, problem: str = "") -> Any:
    """Return the value as the annotation asks. Raises ConfigError with the key, what was found and what is expected.

    A single text where a list is asked for becomes a list of one.

    Args:
        annotation: the type of the option or setting.
        value: the value as it was read from the command line, a file or Python.
        key: its dotted name, for the message.
        text: how the command line wrote the value. It replaces a value that does not fit: where text is asked for,
            `123` and `1e3` are text, and so is `null` where null is not allowed.
        problem: why `text` could not be read as a value, "" if it could. Only an option that takes text accepts it.
    """
    members = set(members_of(annotation))
    if problem:
        # `[a` and `a,b` are no list of one text: whoever wrote them meant several.
        several = text is not None and (text.lstrip()[:1] in ("[", "{") or "," in text)
        takes_text = bool(members & {str, Any}) or (_is_sequence(members) and not several)
        candidates = [text] if takes_text else []
    else:
        candidates = [value]
        # A list that is refused where one is asked for stays refused: its text would be a list of that one text.
        listed = isinstance(value, list) and _is_sequence(members)
        if text is not None and value != text and not listed:
            candidates.append(text)
    reason = problem if "," in (text or "") or not problem else f"expected {described(annotation)}; it {problem}"
    for candidate in candidates:
        result, fault = fit(annotation, candidate)
        if not fault:
            return result
        reason = reason or fault
    shown = text if text is not None else repr(value)
    raise ConfigError(f"{key}={shown if len(shown) <= 80 else shown[:77] + '...'}: {reason}")


def fit(annotation: Any, value: Any, *, finite: bool = True) -> tuple[Any, str]:
    """Return the value as the annotation asks with an empty text, or None with a text that says what is wrong.

    `finite=False` lets NaN and infinity pass where a number is asked for.
    """
    from pydantic import ValidationError

    members = set(members_of(annotation))
    if isinstance(value, bool) and not members & {bool, Any}:
        return None, f"expected {described(annotation)}, found {str(value).lower()}"
    if isinstance(value, str) and _is_sequence(members) and str not in members:
        value = [value]
    try:
        result = adapter(annotation).validate_python(value)
    except ValidationError as error:
        return None, _fault(error, annotation, value)
    except (ValueError, OverflowError, RecursionError) as error:
        return None, str(error)
    if finite and isinstance(result, float) and not math.isfinite(result):
        return None, f"expected a finite number, found {result}"
    if isinstance(result, int) and not -LARGEST <= result <= LARGEST:
        return None, f"the number is too large (at most {LARGEST})"
    return result, ""


def _fault(error: ValidationError, annotation: Any, value: Any) -> str:
    first = error.errors(include_url=False)[0]
    if first["type"] == "greater_than_equal" and isinstance(first["input"], float) and math.isnan(first["input"]):
        return "expected a finite number, found nan"
    if first["type"] == "literal_error":
        allowed = [str(a) for a in typing.get_args(_literal(annotation))]
        return f"expected one of {', '.join(allowed)}.{nearest(str(value), allowed)}"
    if first["type"].startswith(TYPES):
        return f"expected {described(annotation)}"
    return first["msg"].replace("Input should be", "expected").removeprefix("Value error, ")


def _literal(annotation: Any) -> Any:
    return next((m for m in members_of(annotation) if typing.get_origin(m) is typing.Literal), annotation)


@functools.lru_cache(maxsize=512)
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))


def adapter(annotation: Any) -> TypeAdapter[Any]:
    """Return the pydantic adapter that checks values of an annotation."""
    try:
        return _adapter(annotation)
    except TypeError:  # an annotation that cannot be hashed
        return _adapter.__wrapped__(annotation)


def members_of(annotation: Any) -> list[Any]:
    """Return what an annotation may be, without marks and unions around it."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return members_of(annotation.__origin__)
    if origin in (typing.Union, types.UnionType):
        return [m for argument in typing.get_args(annotation) for m in members_of(argument)]
    return [annotation]


def _is_sequence(members: Collection[Any]) -> bool:
    return any((typing.get_origin(m) or m) in (tuple, list, Sequence, set, frozenset) for m in members)


def is_mapping(annotation: Any) -> bool:
    """Tell whether it is a dictionary, in which any key may stand."""
    return any((typing.get_origin(m) or m) in (dict, Mapping) for m in members_of(annotation))


def described(annotation: Any) -> str:
    """Return an annotation in words of the command line."""
    words = []
    for member in members_of(annotation):
        origin = typing.get_origin(member)
        if origin is typing.Literal:
            words += [str(a) for a in typing.get_args(member)]
        elif member in WORDS:
            words.append(WORDS[member])
        elif (origin or member) in (tuple, list, Sequence):
            inner = [a for a in typing.get_args(member) if a is not Ellipsis]
            words.append(f"a list of {described(inner[0])}" if inner else "a list")
        elif is_mapping(member):
            words.append("a mapping")
        else:
            words.append(getattr(member, "__name__", str(member)))
    return " or ".join(dict.fromkeys(words))


# pydantic's errors that say no more than that the type is another one
TYPES = ("int_", "float_", "bool_", "string_", "tuple_", "list_", "dict_", "none_", "callable_")
WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    type(None): "null",
}
