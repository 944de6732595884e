"""ReMax (Li et al. 2024, arXiv:2310.10505).

    A_t  = sum_{s >= t} r_s - R_greedy                          R_greedy: the reward of a greedy answer to the prompt
    loss = mean over rows of  -sum_t A_t log pi_t

What differs from RLOO: the baseline is one greedy answer per prompt, drawn beside the samples and never trained on; a
prompt may be sampled once. What differs from the paper: its KL penalty in the reward (k1) is off by default, so no
reference model is loaded; `kl_in_reward_coefficient` switches it on.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.math import k1
from rlcore_algorithms.advantages import greedy_baseline
from rlcore_algorithms.losses import policy_gradient
from rlcore_algorithms.reductions import sequence_mean_token_sum


def remax(*, group_size: int = 1, kl_in_reward_coefficient: float = 0.0) -> Algorithm:
    """ReMax: a plain policy gradient, one update a step, with the reward of a greedy answer as the baseline."""
    return Algorithm(
        name="remax",
        advantage=greedy_baseline,
        loss=policy_gradient,
        reduction=sequence_mean_token_sum,
        kl_in_reward=k1 if kl_in_reward_coefficient else None,
        kl_in_reward_coefficient=kl_in_reward_coefficient,
        group_size=group_size,
    )
