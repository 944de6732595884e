"""CISPO: Clipped IS-weight Policy Optimization (MiniMax 2025, MiniMax-M1, arXiv:2506.13585, equations 4 and 5).

    A_i  = (R_i - mean(R)) / std(R)                             over the samples of one prompt
    r    = exp(logprob - old_logprob)
    loss = mean over all tokens of  -stop(min(r, 1 + clip_high)) A logprob

What differs from GRPO: the ratio only weighs and is bounded above, so no token loses its gradient; a mean over tokens.
What differs from the paper: DAPO's dynamic sampling and length penalty, which it uses too, are not included.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore_algorithms.advantages import group_norm
from rlcore_algorithms.losses import cispo as loss
from rlcore_algorithms.reductions import token_mean


def cispo(
    *, group_size: int = 8, clip_low: float = 1.0, clip_high: float = 4.0, epochs: int = 1, minibatches: int = 1
) -> Algorithm:
    """CISPO: a policy gradient with bounded importance weights; clip_low 1 is no lower bound."""
    return Algorithm(
        name="cispo",
        advantage=group_norm,
        loss=bind(loss, clip_low=clip_low, clip_high=clip_high),
        reduction=token_mean,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
