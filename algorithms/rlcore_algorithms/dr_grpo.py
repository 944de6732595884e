"""Dr.GRPO: GRPO done right (Liu et al. 2025, Understanding R1-Zero-Like Training, arXiv:2503.20783, section 3.2).

    A_i  = R_i - mean(R)                                        over the samples of one prompt
    r    = exp(logprob - old_logprob)
    loss = sum over rows and tokens of  max(-A r, -A clip(r, 1 - clip, 1 + clip)) / (rows x length)

What differs from GRPO: no division by the group's deviation (no bias to easy or hard prompts) and none
by a row's own length (no bias towards long wrong answers). What differs from the paper: nothing; `length` is a
constant, by default the run's bound on new tokens.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore_algorithms.advantages import group_norm
from rlcore_algorithms.losses import clipped
from rlcore_algorithms.reductions import constant


def dr_grpo(
    *, group_size: int = 8, clip: float = 0.2, length: int | None = None, epochs: int = 1, minibatches: int = 1
) -> Algorithm:
    """Dr.GRPO: GRPO without its two divisions; `length` is the constant that a sum over tokens is divided by."""
    return Algorithm(
        name="dr_grpo",
        advantage=bind(group_norm, scale_by_std=False),
        loss=bind(clipped, clip_low=clip, clip_high=clip),
        reduction=bind(constant, length=length),
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
