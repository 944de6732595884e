"""OPO: On-Policy RL with Optimal reward baseline (Hao et al. 2025, arXiv:2505.23585).

    A_i  = R_i - sum_j L_j R_j / sum_j L_j                      over the samples of one prompt, L their lengths
    loss = mean over rows of  -A_i log pi(row)                  log pi(row): the sum over its tokens

What differs from RLOO: the baseline is the mean weighted by length, which makes the variance of the gradient least.
Exactly on policy: one update a step, no ratio, no KL, no entropy term. What differs from the paper: nothing.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore_algorithms.advantages import length_weighted_baseline
from rlcore_algorithms.losses import policy_gradient
from rlcore_algorithms.reductions import sequence_mean_token_sum


def opo(*, group_size: int = 8) -> Algorithm:
    """OPO: a plain policy gradient, one update a step, with a length-weighted baseline."""
    return Algorithm(
        name="opo",
        advantage=length_weighted_baseline,
        loss=policy_gradient,
        reduction=sequence_mean_token_sum,
        group_size=group_size,
    )
