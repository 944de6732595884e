"""Sums of two whole numbers: a data set and two rewards, for tests and for `python -m tests.bench.learning`."""

from __future__ import annotations

import random
import re
from typing import Any, Literal

from rlcore.data.rows import Rows

HELD_OUT_SEED = 987654
Task = Literal["add", "add_chat"]


def sums(
    *,
    split: Literal["train", "heldout", "all"] = "train",
    count: int = 1024,
    seed: int = 1,
    task: Task = "add",
    held_out: int = 512,
) -> Rows:
    """Return sums of two whole numbers below 100, drawn from `seed`; the held-out ones have a seed of their own."""
    held = split == "heldout"
    numbers = random.Random(HELD_OUT_SEED if held else seed)
    return Rows(problem(numbers, task) for _ in range(held_out if held else count))


def problem(numbers: random.Random, task: str) -> dict[str, Any]:
    """Return one row: `12+7=`, or the same in words."""
    highest = numbers.choice([10, 100]), numbers.choice([10, 100])
    x, y = (numbers.randrange(high) for high in highest)
    if task == "add":
        return {"prompt": f"{x}+{y}=", "target": str(x + y)}
    words = (
        "Here are two whole numbers that have to be added together with care, step by step, and the result given "
        f"as a plain number at the end of the answer. The sum is {x} + {y} ="
    )
    return {"prompt": words, "target": str(x + y)}


def is_sum(completion: str, target: str) -> float:
    """Return 1.0 if the completion is the target."""
    return float(completion.strip() == target)


def ends_in_sum(completion: str, target: str) -> float:
    """Return 1.0 if the completion's last number is the target."""
    return float((re.findall(r"\d+", completion) or [""])[-1] == target)


# Nothing to limit: no worker process is worth its start.
is_sum.bounded = ends_in_sum.bounded = True  # type: ignore[attr-defined]
