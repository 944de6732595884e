"""Right or wrong by the whole text."""

from __future__ import annotations

from typing import Any

from rlcore.data import native


def exact_answer(completion: str, target: Any) -> float:
    """1.0 if the completion is the target, character by character but for space around them, else 0.0.

    A number is compared as one writes it (7 and 7.0 are "7"); a list of targets means any of them.

    Raises:
        ValueError: the target is neither text nor a number, so that no completion could be right.
    """
    target = native(target)
    targets = target if isinstance(target, list) else [target]
    return float(completion.strip() in [written(item) for item in targets])


def written(target: Any) -> str:
    """A target as text, without space around it."""
    if isinstance(target, str):
        return target.strip()
    if isinstance(target, bool) or not hasattr(target, "__float__"):
        raise ValueError(f"the target {target!r:.80} is neither text nor a number")
    return str(int(target)) if float(target).is_integer() else str(target)
