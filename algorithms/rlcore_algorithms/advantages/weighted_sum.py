"""The weighted sum of two advantage estimators."""

from __future__ import annotations

from typing import Annotated, Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlcore.component import Advantage, OnlyWith
from rlcore.math import length_mask, masked
from rlcore_algorithms.advantages.group_norm import group_norm


def weighted_sum(
    length: Int[Tensor, " B"],
    sampled: Bool[Tensor, "B T"],
    *,
    first: Advantage = group_norm,
    second: Advantage | None = None,
    first_weight: float = 1.0,
    second_weight: Annotated[float, OnlyWith("second")] = 1.0,
) -> Float[Tensor, " B"] | Float[Tensor, "B T"]:
    """Return the advantage [B], or [B, T] if one of the two is: the weighted sum of two estimators; 0 beyond `length`.

        A = first_weight A_first + second_weight A_second

    It reads `length`, `sampled` and the columns that the two estimators read; a run computes no others for it. Returns
    that an estimator also makes are dropped.
    first, second: the estimators; without a second one the first is only weighted.

    Source: none; a composition, as of outcome and process rewards in PRIME (Cui et al. 2025, arXiv:2502.01456).
    """
    total = _advantage(first()) * first_weight
    if second is None:
        return total
    other = _advantage(second()) * second_weight
    if total.dim() == other.dim():
        return total + other
    wide, narrow = (total, other) if total.dim() == 2 else (other, total)
    return masked(wide + narrow[:, None], length_mask(length, sampled.shape[1]))


def _advantage(result: Any) -> Tensor:
    """Return the advantage of what an estimator gave: a tensor, or a NamedTuple that has it."""
    advantage: Tensor = getattr(result, "advantage", result)
    return advantage
