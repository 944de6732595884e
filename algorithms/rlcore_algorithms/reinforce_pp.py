"""REINFORCE++ (Hu et al. 2025, arXiv:2501.03262, section 3).

    r_t  = reward on the last token - kl_in_reward_coefficient k1_t
    A_t  = whiten(r_t + gamma A_{t+1})                          over all tokens of the step
    ratio = exp(logprob - old_logprob)
    loss = mean over tokens of  max(-A ratio, -A clip(ratio, 1 - clip, 1 + clip))

What differs from PPO: no critic; the return itself is whitened. No groups are needed, so a prompt is drawn once. What
differs from the paper: the KL penalty is off by default, so no reference model is loaded.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore.math import k1
from rlcore_algorithms.advantages import reward_to_go, whiten
from rlcore_algorithms.losses import clipped
from rlcore_algorithms.reductions import token_mean


def reinforce_pp(
    *,
    group_size: int = 1,
    gamma: float = 1.0,
    clip: float = 0.2,
    kl_in_reward_coefficient: float = 0.0,
    epochs: int = 1,
    minibatches: int = 1,
) -> Algorithm:
    """REINFORCE++: discounted returns, whitened over the step, with PPO's clipped loss."""
    return Algorithm(
        name="reinforce_pp",
        advantage=(bind(reward_to_go, gamma=gamma), whiten),
        loss=bind(clipped, clip_low=clip, clip_high=clip),
        reduction=token_mean,
        kl_in_reward=k1 if kl_in_reward_coefficient else None,
        kl_in_reward_coefficient=kl_in_reward_coefficient,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
