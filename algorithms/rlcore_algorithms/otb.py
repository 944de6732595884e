"""OTB: the Optimal Token Baseline (Li et al. 2026, arXiv:2602.07078).

    A_t  = G_t - sum_j G_jt W_jt / sum_j W_jt                   over the prompt's samples, the row itself too
    r    = exp(logprob - old_logprob)
    loss = mean over all tokens of  max(-A r, -A clip(r, 1 - clip, 1 + clip))

W: the squared gradient norms of a row's logits, summed up to its token t. What differs from GRPO: each token has a
baseline of its own, no division by the deviation; the trainer's log-probabilities and square sums are taken before the
update, one forward pass more. What differs from the paper: a prompt with one sample, or with equal returns,
has the advantage 0.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore_algorithms.advantages import token_baseline
from rlcore_algorithms.losses import clipped
from rlcore_algorithms.reductions import token_mean


def otb(*, group_size: int = 8, clip: float = 0.2, epochs: int = 1, minibatches: int = 1) -> Algorithm:
    """OTB: PPO's loss with a baseline per token, of least variance, from all samples of the row's prompt."""
    return Algorithm(
        name="otb",
        advantage=token_baseline,
        loss=bind(clipped, clip_low=clip, clip_high=clip),
        reduction=token_mean,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
