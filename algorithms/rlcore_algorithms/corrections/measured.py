"""Diagnostics of the sampler's mismatch that change nothing (Schulman 2020, joschu.net/blog/kl-approx.html)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import LIMITS, Limits, limited, masked, masked_mean, masked_sum, single
from rlcore_algorithms.corrections.mismatch import mismatch
from rlcore_algorithms.outputs import MaskAndMetrics


def measured(
    old_logprob: Float[Tensor, "B T"],
    rollout_logprob: Float[Tensor, "B T"],
    kept_logmass: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    log_ratio_limits: Limits = LIMITS,
) -> MaskAndMetrics:
    """Return the mask [B, T] unchanged, and how far trainer and sampler are apart at its tokens.

        d = (old_logprob - kept_logmass) - rollout_logprob

    Metrics, over tokens: `kl`, the mean of -d, and `k3`, that of exp(d) - d - 1, both KL(sampler || trainer) in nats;
    `chi_square`, the mean of exp(2 d) minus 1; `probability_difference`, its mean, and its largest.
    Over rows: `trainer_perplexity`, `sampler_perplexity` and their logs; `log_perplexity_difference` (trainer's minus
    sampler's), absolute and extreme; `perplexity_ratio`; `row_chi_square`, of the products of ratios.
    Rows without a trained token have no vote. Exponents are clamped to +-20.
    log_ratio_limits: other bounds, in nats, of the exponents of `k3` and of the perplexities; the squared ratios of
    both chi-squares keep theirs.

    Source: Schulman 2020 for both estimates of KL. What differs: nothing.
    """
    d = mismatch(old_logprob, rollout_logprob, kept_logmass, mask)
    near, bounded = limited(d, LIMITS), limited(d, log_ratio_limits)
    sampler = masked(single(rollout_logprob), mask).detach()
    trainer = sampler + d
    log_ours, log_theirs = -masked_mean(trainer, mask, dim=1), -masked_mean(sampler, mask, dim=1)
    difference = log_ours - log_theirs
    apart = (trainer.exp() - sampler.exp()).abs()
    rows = mask.any(1)
    square, row_square = (2 * near).exp(), (2 * limited(masked_sum(d, mask, dim=1), LIMITS)).exp()
    return MaskAndMetrics(
        mask.bool(),
        {
            "kl": -d,
            "k3": torch.expm1(bounded) - bounded,
            "chi_square": masked_mean(square - 1, mask),
            "probability_difference": masked(apart, mask),
            "probability_difference_max": (masked(apart, mask), "max"),
            "trainer_perplexity": limited(log_ours, log_ratio_limits).exp(),
            "sampler_perplexity": limited(log_theirs, log_ratio_limits).exp(),
            "trainer_log_perplexity": log_ours,
            "sampler_log_perplexity": log_theirs,
            "log_perplexity_difference": difference,
            "log_perplexity_difference_abs": difference.abs(),
            "log_perplexity_difference_max": (difference, "max"),
            "log_perplexity_difference_min": (difference, "min"),
            "perplexity_ratio": limited(difference, log_ratio_limits).exp(),
            "row_chi_square": masked_mean(row_square - 1, rows),
        },
    )
