"""Schedules by name: the factor of the learning rate, in [0, 1], as a function of the optimizer update.

Each is called with `update`, the number of an optimizer update (the first is 1), and `total`, the number that the run
makes. Warm-up rises in equal steps to 1: 1/4, 2/4, 3/4, 1 for `warmup_steps=4`. Without it the first factor is 1.
"""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from rlcore.errors import ConfigError

Count = Annotated[int, Field(ge=0)]


def constant(update: int, total: int, *, warmup_steps: Count = 0) -> float:
    """Return 1 after warm-up. `total` is not used."""
    return update / warmup_steps if update < warmup_steps else 1.0


def linear(update: int, total: int, *, warmup_steps: Count = 0) -> float:
    """Return a factor that falls in equal steps after warm-up; it is above 0 at update `total` and 0 after it.

    Raises ConfigError where `total` is below 1 or below the warm-up.
    """
    check_length("linear", total=total, warmup_steps=warmup_steps)
    if update < warmup_steps:
        return update / warmup_steps
    return 1.0 - _share_done(update, total, warmup_steps)


def cosine(update: int, total: int, *, warmup_steps: Count = 0) -> float:
    """Return a factor that falls as half a cosine after warm-up; it is above 0 at update `total` and 0 after it.

    Raises ConfigError where `total` is below 1 or below the warm-up.
    Source: Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts.
    """
    check_length("cosine", total=total, warmup_steps=warmup_steps)
    if update < warmup_steps:
        return update / warmup_steps
    return 0.5 * (1.0 + math.cos(math.pi * _share_done(update, total, warmup_steps)))


def check_length(name: str, *, total: int, warmup_steps: int) -> None:
    """Raise ConfigError for a schedule that falls over less than one optimizer update, or within its warm-up."""
    if total < 1:
        raise ConfigError(f"schedule {name!r} needs total_steps, the optimizer updates of the run; got {total}")
    if warmup_steps > total:
        raise ConfigError(
            f"schedule.warmup_steps={warmup_steps} is more than the {total} optimizer updates of the run; give fewer, "
            f"or more steps"
        )


def _share_done(update: int, total: int, warmup_steps: int) -> float:
    """Return how much of the fall is over: 0 at the end of warm-up, below 1 at the last update, 1 after it."""
    peak = max(warmup_steps, 1)
    return min(1.0, (update - peak) / (total - peak + 1))
