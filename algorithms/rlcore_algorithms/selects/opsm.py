"""Off-policy sequence masking (DeepSeek-AI 2025, DeepSeek-V3.2, arXiv:2512.02556, equation 9)."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import masked, masked_mean, single
from rlcore_algorithms.outputs import WeightAndMetrics, times


def opsm(
    logprob: Float[Tensor, "B T"],
    rollout_logprob: Float[Tensor, "B T"],
    kept_logmass: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    weight: Float[Tensor, "B T"] | None = None,
    *,
    threshold: float = 0.5,
) -> WeightAndMetrics:
    """Return weights [B, T]: 0 at tokens of negative advantage in rows that are too far from what sampled them.

        drift  = mean over the row's trained tokens of rollout_logprob - (logprob - kept_logmass)
        weight = 0 where A < 0 and drift > threshold, 1 elsewhere

    A negative advantage on tokens that the policy has become unlikely to sample teaches little and makes training
    unstable; positive ones are kept however far off. Dropped tokens stay in every denominator. Works with any loss;
    before the first optimizer update of a step the drift is the sampler's mismatch alone.
    threshold: in nats per token, at least 0.

    Metrics: `dropped_share`, of tokens; `drift`, of rows, in nats per token.

    Raises ConfigError for a negative threshold.
    Source: equation 9, which does not give its threshold. What differs: the sign of the advantage is each token's own,
    one and the same in the paper's rows.
    """
    if threshold < 0:
        raise ConfigError(f"opsm: threshold={threshold} is negative; give nats per token")
    difference = masked(single(rollout_logprob) + single(kept_logmass) - single(logprob), mask)
    drift = masked_mean(difference, mask, dim=1)
    keep = ~((drift > threshold)[:, None] & (advantage < 0)) & mask.bool()
    metrics = {"dropped_share": (mask.bool() & ~keep).to(difference.dtype), "drift": drift.detach()}
    return WeightAndMetrics(times(weight, keep.to(difference.dtype)), metrics)
