"""Importance weights of the trainer's policy over the sampler's, bounded, with their metrics."""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import LIMITS, limited, masked, masked_mean
from rlcore_algorithms.corrections.mismatch import mismatch, over_row
from rlcore_algorithms.outputs import WeightAndMetrics, times

Level = Literal["token", "sequence", "sequence_mean"]


def bounded_weights(
    old_logprob: Float[Tensor, "B T"],
    rollout_logprob: Float[Tensor, "B T"],
    kept_logmass: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    weight: Float[Tensor, "B T"] | None,
    *,
    level: Level,
    low: float | None,
    high: float | None,
    outside: Literal["bound", "zero"],
) -> WeightAndMetrics:
    """Return weights [B, T] exp(log ratio at `level`), bounded to [low, high] or 0 outside, times `weight`."""
    if (low is not None and low <= 0) or (high is not None and high <= 0) or (low or 0) > (high or torch.inf):
        raise ConfigError(f"importance weights: low={low} and high={high} must be above 0, low at most high, or None")
    d = mismatch(old_logprob, rollout_logprob, kept_logmass, mask)
    if level != "token":
        d = over_row(d, mask, "sum" if level == "sequence" else "mean")[:, None].expand_as(d)
    raw = masked(limited(d, LIMITS).exp(), mask)
    weights = limited(raw, (low, high))
    if outside == "zero":
        weights = masked(raw, weights == raw)
    weights = masked(weights, mask)
    return WeightAndMetrics(times(weight, weights), _weight_metrics(raw, weights, mask, low, high))


def _weight_metrics(raw: Tensor, bound: Tensor, mask: Tensor, low: float | None, high: float | None) -> dict[str, Any]:
    """Return metrics of one correction's own weights: `raw` before the bounds, `bound` after them."""
    mean, square = masked_mean(bound, mask), masked_mean(bound.square(), mask)
    row, rows = masked_mean(bound, mask, dim=1), mask.any(1)
    lower = low if low is not None else 1 / high if high is not None else 0.0
    above, below = raw > (high or torch.inf), masked(raw < lower, mask)
    row_raw = masked_mean(raw, mask, dim=1)
    return {
        "weight": bound,
        "weight_max": (bound, "max"),
        "weight_min": (bound, "min"),
        "weight_std": (square - mean.square()).clamp(min=0).sqrt(),
        "raw_weight_max": (raw, "max"),
        "raw_weight_min": (raw, "min"),
        # The effective sample size as a share of the tokens: mean^2 / mean of squares, 1 for equal weights.
        "effective_sample_share": torch.where(square > 0, mean.square() / square.clamp(min=1e-30), 0),
        "above_share": above.to(raw.dtype),
        "below_share": below.to(raw.dtype),
        "changed_share": (bound != raw).to(raw.dtype),
        "row_weight": row,
        "row_weight_max": (row, "max"),
        "row_weight_min": (row, "min"),
        "row_weight_std": row[rows].std() if int(rows.sum()) > 1 else row.new_zeros(()),
        "row_above_share": (row_raw > (high or torch.inf)).to(raw.dtype),
        "row_below_share": (row_raw < lower).to(raw.dtype),
    }
