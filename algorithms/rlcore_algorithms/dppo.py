"""DPPO: Divergence PPO (Qi et al. 2026, Rethinking the Trust Region in LLM RL, arXiv:2602.04879).

    A_i  = R_i - mean(R)                                        over the samples of one prompt
    keep = p - p_sampler within [-low, high], on the side that A favours
    r    = exp(logprob - old_logprob)
    loss = sum over rows and tokens of  -keep min(r, 20) A logprob / (rows x length)

What differs from Dr.GRPO: tokens are bounded by how far their probability moved, not by its ratio, and both are
measured against the policy that sampled (the correction `bypass`), so the trainer computes no old log-probabilities.
What differs from the paper: nothing; `divergence="kl"` is its other measure.
"""

from __future__ import annotations

from typing import Literal

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore_algorithms.advantages import group_norm
from rlcore_algorithms.corrections import bypass
from rlcore_algorithms.losses import dppo_kl, dppo_tv
from rlcore_algorithms.reductions import constant


def dppo(
    *,
    group_size: int = 8,
    divergence: Literal["tv", "kl"] = "tv",
    threshold: float | None = None,
    length: int | None = None,
    epochs: int = 1,
    minibatches: int = 1,
) -> Algorithm:
    """DPPO: a policy gradient inside a trust region of probability; threshold None is 0.15 for tv, 0.05 nats for kl."""
    loss = dppo_tv if divergence == "tv" else dppo_kl
    return Algorithm(
        name="dppo",
        advantage=bind(group_norm, scale_by_std=False),
        loss=loss if threshold is None else bind(loss, low=threshold, high=threshold),
        reduction=bind(constant, length=length),
        correction=bypass,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
