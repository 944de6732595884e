"""Reward relative to the group's mean: maximum likelihood RL (Tajwar et al. 2026, MaxRL, arXiv:2602.02710)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rlcore.math import group_center, group_mean, single, wide


def mean_ratio(reward: Float[Tensor, " B"], group: Int[Tensor, " B"], *, epsilon: float = 1e-6) -> Float[Tensor, " B"]:
    """Return the advantage [B]: each reward's difference from its group's mean, in units of that mean.

        A_i = (R_i - mean(R)) / (mean(R) + epsilon)

    With rewards of 0 and 1 the mean estimates the chance of success p, and dividing by it turns the gradient of p into
    that of log p: prompts that are rarely solved count more. 0 for a group of one and for equal rewards, also all 0.
    The mean must be a chance or at least not below 0; where it is not above 0 the difference stays undivided, so that
    a better answer never has the smaller advantage.
    epsilon: added to the mean.

    Source: the estimator with a baseline. What differs: the paper has no epsilon.
    """
    values = wide(reward)
    mean = group_mean(values, group)
    return (group_center(values, group) / torch.where(mean > 0, mean + epsilon, 1)).to(single(reward).dtype)
