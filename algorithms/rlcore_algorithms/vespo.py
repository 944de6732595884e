"""VESPO: Variational Sequence-Level Soft Policy Optimization (Shen et al. 2026, arXiv:2602.10693).

    A_i  = (R_i - mean(R)) / std(R)                             over the samples of one prompt
    r    = exp(logprob - old_logprob)
    W    = product of the row's ratios;  phi = W^power exp(decay (1 - W))
    loss = mean over all tokens of  -stop(phi) A logprob

What differs from GSPO: the product and not the mean of a row's ratios, and a kernel that fades in place of a clip.
What differs from the paper: nothing; the options are the loss's.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore_algorithms.advantages import group_norm
from rlcore_algorithms.losses import vespo as loss
from rlcore_algorithms.reductions import token_mean


def vespo(*, group_size: int = 8, epochs: int = 1, minibatches: int = 1) -> Algorithm:
    """VESPO: a policy gradient weighed by a soft function of the row's importance ratio."""
    return Algorithm(
        name="vespo",
        advantage=group_norm,
        loss=loss,
        reduction=token_mean,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
