"""Clip-Cov (Cui et al. 2025, The Entropy Mechanism of RL for Reasoning LMs, arXiv:2505.22617).

    A_i  = (R_i - mean(R)) / std(R)                             over the samples of one prompt
    r    = exp(logprob - old_logprob)
    loss = mean over all tokens of  max(-A r, -A clip(r, 1 - clip, 1 + clip)), 0 at a few tokens of high covariance

What differs from GRPO: a mean over tokens, and a few drawn tokens whose log-probability goes with their advantage lose
their gradient, which is what keeps the entropy up. What differs from the paper: drawn once per optimizer update.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore_algorithms.advantages import group_norm
from rlcore_algorithms.losses import clipped
from rlcore_algorithms.reductions import token_mean
from rlcore_algorithms.selects import clip_cov as select


def clip_cov(
    *,
    group_size: int = 8,
    clip: float = 0.2,
    share: float = 2e-4,
    low: float = 1.0,
    high: float = 5.0,
    epochs: int = 1,
    minibatches: int = 1,
) -> Algorithm:
    """Clip-Cov: GRPO whose tokens of the highest covariance are left out at random."""
    return Algorithm(
        name="clip_cov",
        advantage=group_norm,
        loss=bind(clipped, clip_low=clip, clip_high=clip),
        reduction=token_mean,
        selects=(bind(select, share=share, low=low, high=high, clip_low=clip, clip_high=clip),),
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
