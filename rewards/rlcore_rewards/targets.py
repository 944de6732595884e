"""The alternatives of a row's target."""

from __future__ import annotations

from typing import Any

from rlcore.data import native


def alternatives(target: Any, *, expected: str) -> list[Any]:
    """Return the target, or each of a list of which any will do, in Python's own types.

    Raises ValueError for an empty list, which no completion could be; `expected` says what one holds.
    """
    target = native(target)
    if target == []:
        raise ValueError(f"the target is an empty list; expected {expected}")
    return target if isinstance(target, list) else [target]
