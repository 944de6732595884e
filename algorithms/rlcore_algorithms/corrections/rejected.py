"""Rejection of tokens or rows on which trainer and sampler disagree (Liu, Li et al. 2025, a post, see below)."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import LIMITS, limited, masked, masked_mean
from rlcore_algorithms.corrections.mismatch import mismatch, over_row
from rlcore_algorithms.outputs import MaskAndMetrics

Level = Literal["token", "sequence_sum", "sequence_mean", "sequence_max"]
Measure = Literal["k1", "k2", "k3"]


def rejected(
    old_logprob: Float[Tensor, "B T"],
    rollout_logprob: Float[Tensor, "B T"],
    kept_logmass: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    level: Level = "sequence_mean",
    measure: Measure = "k1",
    low: float | None = 0.999,
    high: float = 1.001,
) -> MaskAndMetrics:
    """Return the tokens [B, T] whose token or row is within bounds; the others leave the mask and every denominator.

        d  = (old_logprob - kept_logmass) - rollout_logprob
        k1 = d,  k2 = d^2 / 2,  k3 = exp(d) - 1 - d

    level: "token" looks at each token; "sequence_sum", "_mean" and "_max" at a row's, and drop whole rows.
    measure, low, high: with "k1" low <= exp(d) <= high, both above 0, as ratios of trainer to sampler (its mean is the
    geometric mask, its sum the sequence ratio, its maximum wants every token inside); low None is 1 / high. "k2" and
    "k3" are at most `high`, in nats, and have no lower bound.

    Metrics: `rejected_share` and `rejected_row_share`; `measured`, its extremes, its mean and deviation over rows, and
    the shares above and below the bounds (k1 in logs).

    Raises ConfigError for bounds that are not above 0 or the wrong way round, or a lower one that has no effect.
    Source: Liu, Li et al. 2025, "When Speed Kills Stability: Demystifying RL Collapse from the Training-Inference
    Mismatch" (sequence and geometric masks). What differs: d is clamped to +-20 first; bounds of k1 are on trainer over
    sampler, the ratio of the weights, where verl's are on the inverse.
    """
    lower, upper = _bounds(measure, low, high)
    d = limited(mismatch(old_logprob, rollout_logprob, kept_logmass, mask), LIMITS)
    token = {"k1": d, "k2": 0.5 * d.square(), "k3": torch.expm1(d) - d}[measure]
    if level == "token":
        seen, inside = token, (token >= lower) & (token <= upper)
    else:
        how = level.removeprefix("sequence_")
        row = over_row(token, mask, how)
        inside_row = (row >= lower) & (row <= upper)
        if how == "max" and measure == "k1":
            inside_row &= -over_row(-token, mask, how) >= lower
        seen, inside = row[:, None].expand_as(token), inside_row[:, None].expand_as(token)
    kept = inside & mask.bool()
    return MaskAndMetrics(kept, _rejection_metrics(masked(seen, mask), kept, mask, lower, upper))


def _bounds(measure: str, low: float | None, high: float) -> tuple[float, float]:
    if measure != "k1":
        if low is not None:
            raise ConfigError(f"rejected: low={low} has no effect with measure={measure!r}, never negative; set None")
        if high <= 0:
            raise ConfigError(f"rejected: high={high} must be above 0, in nats")
        return -math.inf, high
    low = 1 / high if low is None and high > 0 else low
    if high <= 0 or low is None or not 0 < low <= high:
        raise ConfigError(f"rejected: low={low} and high={high} are bounds of a ratio: above 0, low at most high")
    return math.log(low), math.log(high)


def _rejection_metrics(seen: Tensor, kept: Tensor, mask: Tensor, lower: float, upper: float) -> dict[str, Any]:
    """Return metrics of what was looked at, [B, T] and 0 off the mask."""
    lost = mask.bool() & ~kept
    row, rows = masked_mean(seen, mask, dim=1), mask.any(1)
    near = seen.clamp(lower, upper)
    mean = masked_mean(near, mask)
    return {
        "rejected_share": lost.to(seen.dtype),
        "rejected_row_share": lost.any(1).to(seen.dtype),
        "measured": seen,
        "measured_max": (seen, "max"),
        "measured_min": (seen, "min"),
        "measured_std": (masked_mean(near.square(), mask) - mean.square()).clamp(min=0).sqrt(),
        "above_share": (seen > upper).to(seen.dtype),
        "below_share": masked(seen < lower, mask).to(seen.dtype),
        "row_measured": row,
        "row_measured_max": (row, "max"),
        "row_measured_min": (row, "min"),
        "row_measured_std": row[rows].std() if int(rows.sum()) > 1 else row.new_zeros(()),
        "row_above_share": (row > upper).to(seen.dtype),
        "row_below_share": (row < lower).to(seen.dtype),
    }
