"""Length-weighted baseline (Hao et al. 2025, OPO, arXiv:2505.23585)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rlcore.math import group_center, group_size, group_sum, single, wide


def length_weighted_baseline(
    reward: Float[Tensor, " B"], group: Int[Tensor, " B"], length: Int[Tensor, " B"], *, keep_single: bool = False
) -> Float[Tensor, " B"]:
    """Return the advantage [B]: each reward less its group's mean weighted by length.

        A_i = R_i - sum_j L_j R_j / sum_j L_j                   L_j: sampled tokens of row j

    The baseline of least variance if every token's gradient has the same norm and those of two tokens are orthogonal.
    0 for a group of one and, exactly, for a group of equal rewards.
    keep_single: a group of one keeps its reward.

    Source: the practical form of the optimal baseline. What differs: nothing; a token that a correction masks still
    counts in L.
    """
    values = wide(reward)
    # From the group's mean, not from 0: equal rewards are then exactly 0.
    centered, weight = group_center(values, group), length.to(values.dtype)
    total = group_sum(weight, group).clamp(min=1)
    advantage = centered - group_sum(weight * centered, group) / total
    if keep_single:
        advantage = torch.where(group_size(group) == 1, values, advantage)
    return advantage.to(single(reward).dtype)
