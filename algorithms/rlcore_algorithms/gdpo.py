"""GDPO: Group reward-Decoupled Normalization Policy Optimization (Liu et al. 2026, arXiv:2601.05242).

    A_i  = whiten(sum_k w_k (R_ik - mean(R_k)) / std(R_k))      k: score components, each over its prompt's samples
    r    = exp(logprob - old_logprob)
    loss = mean over rows of the mean over tokens of  max(-A r, -A clip(r, 1 - clip, 1 + clip))

What differs from GRPO: the score components are normalised one by one before they are added, and the sum once more
over the rows of the step. What differs from the paper: no KL term, so no reference model is loaded. The reward must
give score components.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore_algorithms.advantages import components_norm, whiten
from rlcore_algorithms.losses import clipped
from rlcore_algorithms.reductions import sequence_mean_token_mean


def gdpo(
    *, group_size: int = 8, weights: tuple[float, ...] = (), clip: float = 0.2, epochs: int = 1, minibatches: int = 1
) -> Algorithm:
    """GDPO: GRPO for several rewards; `weights` are those of the score components, all 1 if empty."""
    return Algorithm(
        name="gdpo",
        advantage=(bind(components_norm, weights=weights), bind(whiten, vote="row")),
        loss=bind(clipped, clip_low=clip, clip_high=clip),
        reduction=sequence_mean_token_mean,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
