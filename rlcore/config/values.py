"""Values read as what an annotation asks for, with an error that says what was asked and what was found."""

from __future__ import annotations

import functools
import math
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rlcore.config.notation import Given
from rlcore.errors import ConfigError, nearest

LARGEST = 2**63 - 1


def read_as(annotation: Any, given: Given, key: str) -> Any:
    """Return the value as the annotation asks. Raises ConfigError.

    A text is taken as it was written where text is asked for ("123", "null" if null is not allowed, "[x"); one text
    where a list is asked for is a list of one.
    """
    candidates = [] if given.problem else [given.value]
    # A list that is refused where one is asked for stays refused: its text would be a list of that one text.
    listed = isinstance(given.value, list) and _is_sequence(_members(annotation))
    if given.text is not None and (given.problem or (given.value != given.text and not listed)):
        candidates.append(given.text)
    reason = given.problem
    for value in candidates:
        found, problem = _fit(annotation, value)
        if not problem:
            return found
        reason = reason or problem
    raise ConfigError(f"{key}={given.shown()}: {reason}")


def _fit(annotation: Any, value: Any) -> tuple[Any, str]:
    members = set(_members(annotation))
    if isinstance(value, bool) and not members & {bool, Any}:
        return None, f"expected {described(annotation)}, found {str(value).lower()}"
    if isinstance(value, str) and _is_sequence(members) and str not in members:
        value = [value]
    try:
        found = adapter(annotation).validate_python(value)
    except ValidationError as error:
        return None, _said(error, annotation, value)
    except (ValueError, OverflowError, RecursionError) as error:
        return None, str(error)
    if isinstance(found, float) and not math.isfinite(found):
        return None, f"expected a finite number, found {found}"
    if isinstance(found, int) and not -LARGEST <= found <= LARGEST:
        return None, f"the number is too large (at most {LARGEST})"
    return found, ""


def _said(error: ValidationError, annotation: Any, value: Any) -> str:
    first = error.errors(include_url=False)[0]
    if first["type"] == "literal_error":
        allowed = [str(a) for a in typing.get_args(_literal(annotation))]
        return f"expected one of {', '.join(allowed)}.{nearest(str(value), allowed)}"
    if first["type"].startswith(TYPES):
        return f"expected {described(annotation)}"
    return first["msg"].replace("Input should be", "expected").removeprefix("Value error, ")


def _literal(annotation: Any) -> Any:
    return next((m for m in _members(annotation) if typing.get_origin(m) is typing.Literal), annotation)


@functools.lru_cache(maxsize=512)
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))


def adapter(annotation: Any) -> TypeAdapter[Any]:
    """Return what judges values of an annotation."""
    try:
        return _adapter(annotation)
    except TypeError:  # an annotation that cannot be hashed
        return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))


def _members(annotation: Any) -> list[Any]:
    """Return what an annotation may be, without marks and unions around it."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _members(annotation.__origin__)
    if origin in (typing.Union, types.UnionType):
        return [m for argument in typing.get_args(annotation) for m in _members(argument)]
    return [annotation]


def _is_sequence(members: Collection[Any]) -> bool:
    return any((typing.get_origin(m) or m) in (tuple, list, Sequence, set, frozenset) for m in members)


def is_open(annotation: Any) -> bool:
    """Tell whether it is a dictionary, in which any key may stand."""
    return any((typing.get_origin(m) or m) in (dict, Mapping) for m in _members(annotation))


def described(annotation: Any) -> str:
    """Return an annotation in words of the command line."""
    words = []
    for member in _members(annotation):
        origin = typing.get_origin(member)
        if origin is typing.Literal:
            words += [str(a) for a in typing.get_args(member)]
        elif member in WORDS:
            words.append(WORDS[member])
        elif (origin or member) in (tuple, list, Sequence):
            inner = [a for a in typing.get_args(member) if a is not Ellipsis]
            words.append(f"a list of {described(inner[0])}" if inner else "a list")
        elif is_open(member):
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
