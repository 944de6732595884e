"""Lite PPO (Liu et al. 2025, Tricks or Traps, arXiv:2508.08221).

    A_i  = (R_i - mean of the prompt's R) / (std of the batch's R + 1e-6)
    r    = exp(logprob - old_logprob)
    loss = mean over all tokens of  max(-A r, -A clip(r, 1 - clip, 1 + clip))

What differs from GRPO: the deviation is that of all rewards of the step, so that a small difference between answers to
one prompt has a small advantage; and the mean is over all tokens. What differs from the paper: nothing.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore_algorithms.advantages import norm
from rlcore_algorithms.losses import clipped
from rlcore_algorithms.reductions import token_mean


def lite_ppo(*, group_size: int = 8, clip: float = 0.2, epochs: int = 1, minibatches: int = 1) -> Algorithm:
    """Lite PPO: PPO's loss without a critic, with the group's mean, the batch's deviation and the token mean."""
    return Algorithm(
        name="lite_ppo",
        advantage=bind(norm, center="group", scale="batch"),
        loss=bind(clipped, clip_low=clip, clip_high=clip),
        reduction=token_mean,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
