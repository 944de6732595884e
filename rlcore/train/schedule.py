"""The learning rate's course over optimizer updates."""

from __future__ import annotations

import math

from rlcore.errors import ConfigError, nearest

SCHEDULES = ("constant", "linear", "cosine")


def check_schedule(name: str, *, warmup: int, total: int) -> None:
    """Raise ConfigError unless `factor` can be asked with these."""
    if name not in SCHEDULES:
        raise ConfigError(f"schedule {name!r} is unknown; allowed: {', '.join(SCHEDULES)}.{nearest(name, SCHEDULES)}")
    if warmup < 0 or total < 0:
        raise ConfigError(f"warmup_steps {warmup} and total_steps {total} must be 0 or more")
    if name != "constant" and total < 1:
        raise ConfigError(
            f"schedule {name!r} needs total_steps, the number of optimizer updates of the run; got {total}"
        )
    if name != "constant" and warmup > total:
        raise ConfigError(f"warmup_steps {warmup} is more than total_steps {total}")


def factor(name: str, update: int, *, warmup: int, total: int) -> float:
    """Return the multiple of the learning rate for the `update`-th optimizer update (the first is 1), in [0, 1].

    Warm-up climbs in equal steps, its first above 0 and its last 1: 1/4, 2/4, 3/4, 1 for `warmup=4`. Without warm-up
    the first update has the full rate. "linear" and "cosine" then fall so that the last of `total` updates still does
    something; after `total` the rate is 0.
    """
    if update < warmup:
        return update / warmup
    if name == "constant":
        return 1.0
    peak = max(warmup, 1)
    done = min(1.0, (update - peak) / (total - peak + 1))
    if name == "linear":
        return 1.0 - done
    return 0.5 * (1.0 + math.cos(math.pi * done))
