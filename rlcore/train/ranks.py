"""The one place where training on several ranks enters.

Today a run is one process. What sharding must add is a sum here: counts before the backward pass, gradients after it
(the sum, never the mean: every term is divided by counts of all ranks already), and the square norm of shards.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def sum_over_ranks(value: T, *, sharded: bool = False) -> T:
    """Return the sum of `value` over all ranks: itself, as there is one.

    `sharded`: ranks hold different parts of one thing (a parameter's shards) instead of different rows.
    """
    del sharded
    return value
