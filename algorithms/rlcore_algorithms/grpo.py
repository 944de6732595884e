"""GRPO: Group Relative Policy Optimization (Shao et al. 2024, DeepSeekMath, arXiv:2402.03300, equation 3).

    A_i  = (R_i - mean(R)) / std(R)                             over the samples of one prompt
    r    = exp(logprob - old_logprob)
    loss = mean over rows of the mean over tokens of  max(-A r, -A clip(r, 1 - clip, 1 + clip)) + kl_coefficient k3

What differs from the paper: the KL term is off by default (there 0.04), so no reference model is loaded; the paper
draws 64 samples a prompt.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore.math import k3
from rlcore_algorithms.advantages import group_norm
from rlcore_algorithms.losses import clipped
from rlcore_algorithms.reductions import sequence_mean_token_mean


def grpo(
    *, group_size: int = 8, clip: float = 0.2, kl_coefficient: float = 0.0, epochs: int = 1, minibatches: int = 1
) -> Algorithm:
    """GRPO: no critic; a reward is compared with those of the same prompt, in units of their deviation."""
    return Algorithm(
        name="grpo",
        advantage=bind(group_norm, scale_by_std=True, epsilon=1e-6),
        loss=bind(clipped, clip_low=clip, clip_high=clip),
        reduction=sequence_mean_token_mean,
        kl=k3,
        kl_coefficient=kl_coefficient,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
