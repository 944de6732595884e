"""Corrections of the sampler's mismatch by the current weights: for runs that bypass old_logprob."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore_algorithms.corrections.rejected import Level as RejectionLevel
from rlcore_algorithms.corrections.rejected import Measure, rejected
from rlcore_algorithms.corrections.weights import Level, bounded_weights
from rlcore_algorithms.outputs import MaskAndMetrics, WeightAndMetrics


def current_weights(
    logprob: Float[Tensor, "B T"],
    rollout_logprob: Float[Tensor, "B T"],
    kept_logmass: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    weight: Float[Tensor, "B T"] | None = None,
    *,
    level: Level = "token",
    low: float | None = None,
    high: float | None = 2.0,
    outside: Literal["bound", "zero"] = "bound",
) -> WeightAndMetrics:
    """Return importance weights [B, T] of the current policy over the sampler's, detached; 0 off the mask.

    The corrections `truncated` (outside="bound") and `icepop` ("zero") with logprob in place of old_logprob: with
    policy_gradient this is REINFORCE with importance weights, which needs no old log-probabilities at all.
    Options, metrics, source and what raises: those of `rlcore_algorithms.corrections.truncated` (Yao et al. 2025).
    """
    return bounded_weights(
        logprob, rollout_logprob, kept_logmass, mask, weight, level=level, low=low, high=high, outside=outside
    )


def current_rejection(
    logprob: Float[Tensor, "B T"],
    rollout_logprob: Float[Tensor, "B T"],
    kept_logmass: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    level: RejectionLevel = "sequence_mean",
    measure: Measure = "k1",
    low: float | None = 0.999,
    high: float = 1.001,
) -> MaskAndMetrics:
    """Return the tokens [B, T] at which the current policy is near enough to the sampler's.

    The correction `rejected` with logprob in place of old_logprob. Options, metrics, source and what raises: its own.
    """
    return rejected(logprob, rollout_logprob, kept_logmass, mask, level=level, measure=measure, low=low, high=high)
