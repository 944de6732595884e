"""LUSPO: Length-Unbiased Sequence Policy Optimization (Liu et al. 2026, arXiv:2602.05261).

    A_i  = (R_i - mean(R)) / std(R)                             over the samples of one prompt
    s_i  = exp(mean over the row's tokens of logprob - old_logprob)
    loss = mean over rows of  length x max(-A s, -A clip(s, 1 - clip_low, 1 + clip_high))

What differs from GSPO: a row weighs as much as its length, so a token's gradient does not shrink with the length of its
row. That is GSPO's loss with sequence_mean_token_sum as its reduction. What differs from the paper: nothing.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore_algorithms.advantages import group_norm
from rlcore_algorithms.losses import gspo
from rlcore_algorithms.reductions import sequence_mean_token_sum


def luspo(
    *, group_size: int = 8, clip_low: float = 2e-3, clip_high: float = 2.5e-3, epochs: int = 1, minibatches: int = 1
) -> Algorithm:
    """LUSPO: GSPO with rows weighted by their length."""
    return Algorithm(
        name="luspo",
        advantage=group_norm,
        loss=bind(gspo, clip_low=clip_low, clip_high=clip_high),
        reduction=sequence_mean_token_sum,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
