"""IcePop: importance weights, 0 outside two bounds (Ling team 2025, Ring-1T, arXiv:2510.18855, section 2.3.2)."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore_algorithms.corrections.weights import Level, bounded_weights
from rlcore_algorithms.outputs import WeightAndMetrics


def icepop(
    old_logprob: Float[Tensor, "B T"],
    rollout_logprob: Float[Tensor, "B T"],
    kept_logmass: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    weight: Float[Tensor, "B T"] | None = None,
    *,
    level: Level = "token",
    low: float | None = 0.5,
    high: float | None = 5.0,
) -> WeightAndMetrics:
    """Return importance weights [B, T] of trainer over sampler within [low, high], 0 elsewhere and off the mask.

        d      = (old_logprob - kept_logmass) - rollout_logprob
        weight = exp(d) if low <= exp(d) <= high else 0

    A token on which trainer and sampler disagree more than that gets no gradient and stays in every denominator (the
    correction `rejected` takes tokens out of them). Weights of an earlier correction are multiplied by these.
    level, low, high, metrics and errors are as in `truncated`; `changed_share` is what was set to 0.

    Source: the token-level masking of section 2.3.2; the bounds are those usually quoted for it. What differs: the log
    ratio is clamped to +-20.
    """
    return bounded_weights(
        old_logprob, rollout_logprob, kept_logmass, mask, weight, level=level, low=low, high=high, outside="zero"
    )
