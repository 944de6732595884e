"""MaxRL: Maximum Likelihood Reinforcement Learning (Tajwar et al. 2026, arXiv:2602.02710).

    A_i  = (R_i - mean(R)) / mean(R)                            over the samples of one prompt
    loss = mean over rows of  -A_i log pi(row)                  log pi(row): the sum over its tokens

What differs from RLOO: a prompt counts by 1 / its chance of success, so that the objective tends, with more samples,
to the log-likelihood of a right answer instead of its probability. What differs from the paper: nothing; rewards are
meant to be 0 or 1.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore_algorithms.advantages import mean_ratio
from rlcore_algorithms.losses import policy_gradient
from rlcore_algorithms.reductions import sequence_mean_token_sum


def maxrl(*, group_size: int = 16) -> Algorithm:
    """MaxRL: a plain policy gradient, one update a step; rarely solved prompts count more."""
    return Algorithm(
        name="maxrl",
        advantage=mean_ratio,
        loss=policy_gradient,
        reduction=sequence_mean_token_sum,
        group_size=group_size,
    )
