"""Clip-Cov (Cui et al. 2025, The Entropy Mechanism, arXiv:2505.22617)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import log_ratio, masked, single
from rlcore_algorithms.outputs import WeightAndMetrics, times
from rlcore_algorithms.selects.covariance import covariance


def clip_cov(
    logprob: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    seed: int,
    weight: Float[Tensor, "B T"] | None = None,
    *,
    share: float = 2e-4,
    low: float = 1.0,
    high: float = 5.0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> WeightAndMetrics:
    """Return weights [B, T]: 0 at a few tokens drawn from those of high covariance, which lose their gradient; else 1.

    Candidates have a covariance between `low` and `high` and are not clipped by the loss already; of these
    max(1, share x trained tokens of the update) are drawn, with `seed`. Drawn tokens stay in every denominator.
    share: above 0. clip_low, clip_high: those of the loss.

    Metrics: `dropped_share`, tokens that were drawn; `candidate_share`, those that might have been.

    Raises ConfigError for a share that is not above 0 or bounds the wrong way round.
    Source: the paper's Clip-Cov, with the defaults of its code. What differs: drawn once over the whole optimizer
    update and with the step's seed, in an order of the tokens' own values, so rows may stand in any order and in any
    microbatch.
    """
    if share <= 0 or low >= high:
        raise ConfigError(f"clip_cov: share={share} must be above 0, and low={low} below high={high}")
    covariances = covariance(logprob, advantage, mask)
    ratio = masked(log_ratio(logprob, old_logprob), mask).exp()
    gain = masked(single(advantage), mask)
    clipped = -gain * ratio.clamp(1 - clip_low, 1 + clip_high) > -gain * ratio
    candidate = (covariances > low) & (covariances < high) & mask.bool() & ~clipped
    candidates = candidate.nonzero()
    values = covariances[candidates[:, 0], candidates[:, 1]]
    candidates = candidates[values.argsort(stable=True)]
    wanted = min(max(1, int(share * int(mask.sum()))), len(candidates))
    random = torch.Generator().manual_seed(int(seed) % 2**63)
    drawn = candidates[torch.randperm(len(candidates), generator=random)[:wanted].to(candidates.device)]
    factor = torch.ones_like(ratio)
    factor[drawn[:, 0], drawn[:, 1]] = 0
    metrics = {"dropped_share": 1 - factor, "candidate_share": candidate.to(factor.dtype)}
    return WeightAndMetrics(times(weight, masked(factor, mask)), metrics)
