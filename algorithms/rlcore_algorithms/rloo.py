"""RLOO: REINFORCE with a leave-one-out baseline (Ahmadian et al. 2024, Back to Basics, arXiv:2402.14740).

    A_i  = R_i - mean of the prompt's other rewards
    loss = mean over rows of  -A_i log pi(row)                  log pi(row): the sum over its tokens

What differs from the paper: its KL penalty in the reward (k1) is off by default, so no reference model is loaded;
`kl_in_reward_coefficient` switches it on.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.math import k1
from rlcore_algorithms.advantages import leave_one_out
from rlcore_algorithms.losses import policy_gradient
from rlcore_algorithms.reductions import sequence_mean_token_sum


def rloo(*, group_size: int = 4, kl_in_reward_coefficient: float = 0.0) -> Algorithm:
    """RLOO: a plain policy gradient, one update a step, with the other samples of the prompt as the baseline."""
    return Algorithm(
        name="rloo",
        advantage=leave_one_out,
        loss=policy_gradient,
        reduction=sequence_mean_token_sum,
        kl_in_reward=k1 if kl_in_reward_coefficient else None,
        kl_in_reward_coefficient=kl_in_reward_coefficient,
        group_size=group_size,
    )
