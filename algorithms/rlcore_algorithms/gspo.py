"""GSPO: Group Sequence Policy Optimization (Zheng et al. 2025, arXiv:2507.18071, equations 5 to 7).

    A_i  = (R_i - mean(R)) / std(R)                             over the samples of one prompt
    s_i  = exp(mean over the row's tokens of logprob - old_logprob)
    loss = mean over rows of  max(-A s, -A clip(s, 1 - clip_low, 1 + clip_high))

What differs from GRPO: one ratio a row, the geometric mean of its tokens', and bounds that are a thousand times
closer. What differs from the paper: nothing; its gains come with several minibatches a step (there 4).
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore_algorithms.advantages import group_norm
from rlcore_algorithms.losses import gspo as loss
from rlcore_algorithms.reductions import sequence_mean_token_mean


def gspo(
    *, group_size: int = 8, clip_low: float = 3e-4, clip_high: float = 4e-4, epochs: int = 1, minibatches: int = 1
) -> Algorithm:
    """GSPO: GRPO with the ratio, and its clip, of a whole row."""
    return Algorithm(
        name="gspo",
        advantage=group_norm,
        loss=bind(loss, clip_low=clip_low, clip_high=clip_high),
        reduction=sequence_mean_token_mean,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
