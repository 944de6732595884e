"""Presets of peers whose code was read and not run: settings only, no recorded numbers stand behind them.

`openrlhf-0.11/*`, `nemo-0.7/grpo` and `prime-rl-0.8/default`. What was read is the estimator, the loss, its bounds and
the KL; data, schedules and batch sizes are the run's.
"""

from __future__ import annotations

from typing import Literal, get_args

from rlcore.algorithm import Algorithm
from rlcore.component import Component, bind
from rlcore.math import k1, k3
from rlcore_algorithms import advantages, corrections, losses, reductions

OpenRlhfEstimator = Literal["gae", "reinforce", "reinforce_baseline", "rloo", "group_norm", "dr_grpo"]


def openrlhf(
    *,
    advantage_estimator: OpenRlhfEstimator = "gae",
    n_samples_per_prompt: int = 8,
    gamma: float = 1.0,
    lambd: float = 1.0,
    eps_clip: float = 0.2,
    eps_clip_high: float | None = None,
    value_clip: float = 0.2,
    init_kl_coef: float = 0.01,
    minibatches: int = 1,
) -> Algorithm:
    """OpenRLHF 0.11, from reading: k1 in the reward (0.01), a token mean, epsilon 1e-9, whitening over the batch."""
    center = bind(advantages.group_norm, scale_by_std=False)
    table: dict[str, tuple[Component, ...]] = {
        "gae": (bind(advantages.gae, gamma=gamma, lam=lambd), advantages.whiten),
        "reinforce": (bind(advantages.reward_to_go, gamma=gamma), advantages.whiten),
        "reinforce_baseline": (center, advantages.whiten),
        "rloo": (advantages.leave_one_out,),
        "group_norm": (bind(advantages.group_norm, epsilon=1e-9),),
        "dr_grpo": (center,),
    }
    critic = advantage_estimator == "gae"
    return Algorithm(
        name=f"openrlhf-0.11/{advantage_estimator}",
        advantage=table[advantage_estimator],
        loss=bind(losses.clipped, clip_low=eps_clip, clip_high=eps_clip if eps_clip_high is None else eps_clip_high),
        reduction=reductions.token_mean,
        kl_in_reward=k1 if init_kl_coef else None,
        kl_in_reward_coefficient=init_kl_coef,
        value_loss=bind(losses.value_clipped, clip=value_clip) if critic else None,
        value_reduction=reductions.token_mean if critic else None,
        group_size=n_samples_per_prompt,
        minibatches=minibatches,
    )


def nemo(
    *,
    num_generations_per_prompt: int = 16,
    use_leave_one_out_baseline: bool = True,
    normalize_rewards: bool = True,
    ratio_clip_min: float = 0.2,
    ratio_clip_max: float = 0.2,
    reference_policy_kl_penalty: float = 0.01,
    minibatches: int = 1,
) -> Algorithm:
    """NeMo RL 0.7, from reading: leave-one-out mean over the others' deviation (skipped when 0), k3 (0.01) in the loss.

    The exponent of k3 is clamped to +-20 and its value to 10, which cuts the gradient above.
    """
    return Algorithm(
        name="nemo-0.7/grpo",
        advantage=bind(
            advantages.norm,
            scale="group" if normalize_rewards else "none",
            leave_one_out=use_leave_one_out_baseline,
            epsilon=1e-6,
        ),
        loss=bind(losses.clipped, clip_low=ratio_clip_min, clip_high=ratio_clip_max),
        reduction=reductions.token_mean,
        kl=bind(k3, ceiling=10.0) if reference_policy_kl_penalty else None,
        kl_coefficient=reference_policy_kl_penalty,
        group_size=num_generations_per_prompt,
        minibatches=minibatches,
    )


def prime_rl(
    *,
    group_size: int = 16,
    token_mask_low: float = 0.2,
    token_mask_high: float = 0.2,
    kl_tau: float = 1e-3,
    minibatches: int = 1,
) -> Algorithm:
    """The default of prime-rl 0.8, from reading: the group's mean, DPPO's binary TV against the sampler's own numbers.

    No cap of the ratio, a quadratic pull of 1e-3, a token mean; old log-probabilities are never computed.
    """
    return Algorithm(
        name="prime-rl-0.8/default",
        advantage=bind(advantages.group_norm, scale_by_std=False),
        loss=bind(losses.dppo_tv, low=token_mask_low, high=token_mask_high, ratio_cap=None, pull=kl_tau),
        reduction=reductions.token_mean,
        correction=corrections.bypass,
        group_size=group_size,
        minibatches=minibatches,
    )


ALL: dict[str, Component] = {
    **{f"openrlhf-0.11/{name}": bind(openrlhf, advantage_estimator=name) for name in get_args(OpenRlhfEstimator)},
    "nemo-0.7/grpo": nemo,
    "prime-rl-0.8/default": prime_rl,
}
