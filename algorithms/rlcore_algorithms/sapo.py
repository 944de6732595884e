"""SAPO: Soft Adaptive Policy Optimization (Gao et al. 2025, arXiv:2511.20347, equations 5 and 6).

    A_i  = (R_i - mean(R)) / std(R)                             over the samples of one prompt
    r    = exp(logprob - old_logprob)
    loss = mean over rows of the mean over tokens of  -(4 / tau) sigmoid(tau (r - 1)) A

What differs from GRPO: a gate that closes softly in place of the clip, sooner for negative advantages. What differs
from the paper: nothing.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore_algorithms.advantages import group_norm
from rlcore_algorithms.losses import sapo as loss
from rlcore_algorithms.reductions import sequence_mean_token_mean


def sapo(
    *,
    group_size: int = 8,
    temperature_positive: float = 1.0,
    temperature_negative: float = 1.05,
    epochs: int = 1,
    minibatches: int = 1,
) -> Algorithm:
    """SAPO: GRPO with a sigmoid of the ratio."""
    return Algorithm(
        name="sapo",
        advantage=group_norm,
        loss=bind(loss, temperature_positive=temperature_positive, temperature_negative=temperature_negative),
        reduction=sequence_mean_token_mean,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
