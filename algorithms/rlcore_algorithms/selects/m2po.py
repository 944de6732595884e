"""Second-Moment Trust Policy Optimization (Zheng et al. 2025, Prosperity before Collapse, arXiv:2510.01161)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import masked, wide
from rlcore_algorithms.outputs import WeightAndMetrics, times


def m2po(
    logprob: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    weight: Float[Tensor, "B T"] | None = None,
    *,
    threshold: float = 0.04,
) -> WeightAndMetrics:
    """Return weights [B, T]: 0 at the fewest tokens without which the second moment of the log ratio is `threshold`.

        M2 = mean over kept tokens of (logprob - old_logprob)^2  <=  threshold

    The largest log ratios go first, until the mean over those left is at most the threshold; the smallest always
    stays. Dropped tokens stay in every denominator. Measured against old_logprob: after the correction `bypass` that is
    the policy that sampled, however stale, as in the paper.
    threshold: in nats squared, above 0.

    Metrics: `dropped_share`; `second_moment`, of all tokens, before any is dropped.

    Raises ConfigError for a threshold that is not above 0.
    Source: the paper's bound on the second moment and its mask, with its threshold. What differs: over the whole
    optimizer update, not over a microbatch.
    """
    if threshold <= 0:
        raise ConfigError(f"m2po: threshold={threshold} must be above 0; at 0 nothing is left")
    on = mask.bool()
    squares = masked(wide(logprob) - wide(old_logprob), mask).square()
    values, order = squares[on].sort(stable=True)
    count = torch.arange(1, len(values) + 1, device=values.device)
    keep = values.cumsum(0) / count <= threshold
    # Means of ascending values never fall, so what is kept is a prefix; the first is kept in any case.
    keep[:1] = True
    factor = torch.zeros_like(squares)
    factor[on] = torch.zeros_like(values).index_copy(0, order, keep.to(values.dtype))
    kept = factor.to(torch.float64 if logprob.dtype == torch.float64 else torch.float32)
    metrics = {"dropped_share": (on & (factor == 0)).to(kept.dtype), "second_moment": squares.to(kept.dtype)}
    return WeightAndMetrics(times(weight, kept), metrics)
