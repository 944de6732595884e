"""PPO: Proximal Policy Optimization with a critic (Schulman et al. 2017, arXiv:1707.06347, equations 7 and 9).

    delta_t = r_t + gamma V_{t+1} - V_t
    A_t     = whiten(delta_t + gamma lam A_{t+1})               over all tokens of the step
    ratio   = exp(logprob - old_logprob)
    loss    = mean over tokens of  max(-A ratio, -A clip(ratio, 1 - clip, 1 + clip))
    critic  = mean over tokens of  max((V - returns)^2, (V_clipped - returns)^2) / 2

What differs from the paper: the critic is a model of its own, so its loss has no coefficient beside the policy's;
advantages are whitened, the value's change is clipped, and both discounts are 1, as is usual for language models; the
KL penalty in the reward (k1) is off by default, so no reference model is loaded.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore.math import k1
from rlcore_algorithms.advantages import gae, whiten
from rlcore_algorithms.losses import clipped, value_clipped
from rlcore_algorithms.reductions import token_mean


def ppo(
    *,
    group_size: int = 1,
    gamma: float = 1.0,
    lam: float = 1.0,
    clip: float = 0.2,
    value_clip: float | None = 0.2,
    critic_warmup: int = 0,
    kl_in_reward_coefficient: float = 0.0,
    entropy_coefficient: float = 0.0,
    epochs: int = 1,
    minibatches: int = 1,
) -> Algorithm:
    """PPO: generalised advantages from a critic, and the clipped surrogate."""
    return Algorithm(
        name="ppo",
        advantage=(bind(gae, gamma=gamma, lam=lam), whiten),
        loss=bind(clipped, clip_low=clip, clip_high=clip),
        reduction=token_mean,
        kl_in_reward=k1 if kl_in_reward_coefficient else None,
        kl_in_reward_coefficient=kl_in_reward_coefficient,
        entropy_coefficient=entropy_coefficient,
        value_loss=bind(value_clipped, clip=value_clip),
        value_reduction=token_mean,
        critic_warmup=critic_warmup,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
