"""A reward with two components, for the estimators that compare each by itself."""

from typing import Any


def length_and_digits(completion: str, target: int) -> dict[str, Any]:
    """Score and two numbers beside it."""
    digits = sum(c.isdigit() for c in completion) / max(len(completion), 1)
    near = 1.0 if str(target)[:1] in completion else 0.0
    return {"score": digits + near, "digits": digits, "near": near}


length_and_digits.bounded = True  # type: ignore[attr-defined]  # no worker process for each of these runs
