"""DAPO: Decoupled Clip and Dynamic Sampling (Yu et al. 2025, arXiv:2503.14476, equations 8 to 12).

    A_i  = (R_i - mean(R)) / std(R)                             over the samples of one prompt
    r    = exp(logprob - old_logprob)
    loss = mean over all tokens of  max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high))
    kept are prompts whose scores are not all equal; others are replaced by fresh ones

What differs from GRPO: clip-higher, a mean over tokens instead of rows, dynamic sampling, no KL. What differs from the
paper: its soft penalty on overlong answers is not included, it makes 16 updates a step, and groups drawn beyond what a
step needs are kept for the next.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore_algorithms.advantages import group_norm
from rlcore_algorithms.filters import dynamic_sampling
from rlcore_algorithms.losses import clipped
from rlcore_algorithms.reductions import token_mean


def dapo(
    *, group_size: int = 16, clip_low: float = 0.2, clip_high: float = 0.28, epochs: int = 1, minibatches: int = 1
) -> Algorithm:
    """DAPO: GRPO with clip-higher, the token mean and dynamic sampling."""
    return Algorithm(
        name="dapo",
        advantage=bind(group_norm, scale_by_std=True, epsilon=1e-6),
        loss=bind(clipped, clip_low=clip_low, clip_high=clip_high),
        reduction=token_mean,
        filter=dynamic_sampling,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
