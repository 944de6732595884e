"""Truncated importance weights (Ionides 2008, doi:10.1198/106186008X320456; Yao et al. 2025, off-policy RL post)."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore_algorithms.corrections.weights import Level, bounded_weights
from rlcore_algorithms.outputs import WeightAndMetrics


def truncated(
    old_logprob: Float[Tensor, "B T"],
    rollout_logprob: Float[Tensor, "B T"],
    kept_logmass: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    weight: Float[Tensor, "B T"] | None = None,
    *,
    level: Level = "token",
    low: float | None = None,
    high: float | None = 2.0,
) -> WeightAndMetrics:
    """Return importance weights [B, T] of trainer over sampler, bounded, detached; 0 off the mask.

        d      = (old_logprob - kept_logmass) - rollout_logprob
        weight = clip(exp(d), low, high)

    A bound above trades a little bias for a bounded variance. Weights of an earlier correction are multiplied by these.
    level: "token": each token's own d; "sequence": the row's sum, the product of its ratios, unbiased and of high
    variance; "sequence_mean": the row's mean, their geometric mean.
    low, high: bounds above 0 on the ratio of trainer to sampler; None is no bound.

    Metrics: the weights' mean, extremes, deviation and row means; `effective_sample_share`; shares of tokens and rows
    outside the bounds (below 1 / high, where there is no lower one); `raw_*` is before the bounds.

    Raises ConfigError for bounds that are not above 0 or the wrong way round.
    Source: Ionides 2008, equation 4; Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL
    training" (token level). What differs: the log ratio is clamped to +-20 first.
    """
    return bounded_weights(
        old_logprob, rollout_logprob, kept_logmass, mask, weight, level=level, low=low, high=high, outside="bound"
    )
