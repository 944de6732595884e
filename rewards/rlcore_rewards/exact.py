"""Right or wrong by the whole text."""

from __future__ import annotations

from typing import Any

from rlcore_rewards.calling import bounded, checks_target
from rlcore_rewards.targets import alternatives


def target_texts(target: Any) -> list[str]:
    """Return the target, or each of a list, as text. Raises ValueError if one is neither, or there is none."""
    return [target_text(item) for item in alternatives(target, expected="a text or a number")]


def target_text(target: Any) -> str:
    """Return a target as text, without space around it."""
    if isinstance(target, str):
        return target.strip()
    if isinstance(target, bool) or not hasattr(target, "__float__"):
        raise ValueError(f"the target {target!r:.80} is neither text nor a number")
    return str(int(target)) if float(target).is_integer() else str(target)


@bounded
@checks_target(target_texts)
def exact(completion: str, target: Any) -> dict[str, Any]:
    """Return 1.0 if the completion is the target, character by character but for space around them, else 0.0.

    A number is compared as one writes it (7 and 7.0 are "7"); a list of targets means any of them.

    Raises:
        ValueError: the target is neither text nor a number, or an empty list, so that no completion could be right.
    """
    answer = completion.strip()
    return {"score": float(answer in target_texts(target)), "extracted": answer}


@bounded
@checks_target(target_texts)
def exact_answer(completion: str, target: Any) -> float:
    """Return the score of `exact` as a bare number. Raises ValueError as that does."""
    return exact(completion, target)["score"]
