"""REINFORCE++ with a baseline (Hu et al. 2025, arXiv:2501.03262, section 3).

    A_i  = whiten(R_i - mean(R))                                the mean over one prompt, the rest over all tokens
    r    = exp(logprob - old_logprob)
    loss = mean over tokens of  max(-A r, -A clip(r, 1 - clip, 1 + clip)) + kl_coefficient k2

What differs from GRPO: the deviation is that of the whole step, over tokens, so that a small difference within a prompt
stays small. What differs from REINFORCE++: several samples a prompt, KL as a term of the loss. What differs from the
paper: the KL term is off by default, so no reference model is loaded. The mean that whitening subtracts counts long
rows more, so equal rewards within a prompt do not have an advantage of exactly 0.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore.math import k2
from rlcore_algorithms.advantages import group_norm, whiten
from rlcore_algorithms.losses import clipped
from rlcore_algorithms.reductions import token_mean


def reinforce_pp_baseline(
    *, group_size: int = 8, clip: float = 0.2, kl_coefficient: float = 0.0, epochs: int = 1, minibatches: int = 1
) -> Algorithm:
    """REINFORCE++ with a baseline: group-centred rewards, whitened over the step, with PPO's clipped loss."""
    return Algorithm(
        name="reinforce_pp_baseline",
        advantage=(bind(group_norm, scale_by_std=False), whiten),
        loss=bind(clipped, clip_low=clip, clip_high=clip),
        reduction=token_mean,
        kl=k2,
        kl_coefficient=kl_coefficient,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
