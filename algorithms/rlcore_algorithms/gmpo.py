"""GMPO: Geometric-Mean Policy Optimization (Zhao et al. 2025, arXiv:2507.20673, equation 4).

    A_i  = (R_i - mean(R)) / std(R)                             over the samples of one prompt
    r    = exp(logprob - old_logprob)
    loss = mean over rows of  -A exp(mean over the row's tokens of log r, clipped on the side that A favours)

What differs from GRPO: the geometric mean of a row's ratios in place of the arithmetic one, so that a single token with
a large ratio has less influence on its row, and wide bounds on the log ratio. What differs from the paper: no KL term,
as in its main results.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore_algorithms.advantages import group_norm
from rlcore_algorithms.losses import gmpo as loss
from rlcore_algorithms.reductions import sequence_mean_token_mean


def gmpo(
    *, group_size: int = 8, clip_low: float = 0.4, clip_high: float = 0.4, epochs: int = 1, minibatches: int = 1
) -> Algorithm:
    """GMPO: GRPO with the geometric mean of a row's ratios; the bounds are of log ratios, in nats."""
    return Algorithm(
        name="gmpo",
        advantage=group_norm,
        loss=bind(loss, clip_low=clip_low, clip_high=clip_high),
        reduction=sequence_mean_token_mean,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
