"""KL-Cov (Cui et al. 2025, The Entropy Mechanism of RL for Reasoning LMs, arXiv:2505.22617).

    A_i  = (R_i - mean(R)) / std(R)                             over the samples of one prompt
    r    = exp(logprob - old_logprob)
    loss = mean over all tokens of  -A r, plus coefficient |log r| at the tokens of the highest covariance

What differs from GRPO: a mean over tokens, no clip, and a pull to the old policy where a token's log-probability goes
with its advantage, which is what keeps the entropy up. What differs from the paper: chosen once per optimizer update.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore_algorithms.advantages import group_norm
from rlcore_algorithms.losses import kl_cov as loss
from rlcore_algorithms.reductions import token_mean
from rlcore_algorithms.selects import kl_cov as select


def kl_cov(
    *, group_size: int = 8, share: float = 2e-4, coefficient: float = 1.0, epochs: int = 1, minibatches: int = 1
) -> Algorithm:
    """KL-Cov: an unclipped surrogate that holds the tokens of the highest covariance to the old policy."""
    return Algorithm(
        name="kl_cov",
        advantage=group_norm,
        loss=bind(loss, coefficient=coefficient),
        reduction=token_mean,
        selects=(bind(select, share=share),),
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
