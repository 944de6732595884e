"""Group-relative advantage (Shao et al. 2024, DeepSeekMath, arXiv:2402.03300, section 4.1.2)."""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rlcore.component import OnlyWith
from rlcore.math import group_center, group_size, group_std, single, wide


def group_norm(
    reward: Float[Tensor, " B"],
    group: Int[Tensor, " B"],
    *,
    scale_by_std: bool = True,
    epsilon: Annotated[float, OnlyWith("scale_by_std")] = 1e-6,
    keep_single: bool = False,
) -> Float[Tensor, " B"]:
    """Return the advantage [B]: each reward against its group's mean, in units of the group's standard deviation.

        A_i = (R_i - mean(R)) / (std(R) + epsilon)

    0 for a group of one and, exactly, for a group of equal rewards.
    scale_by_std: False leaves the difference from the mean as it is (Dr.GRPO, arXiv:2503.20783).
    epsilon: added to the deviation. keep_single: a group of one keeps its reward, as if its mean were 0.

    Source: section 4.1.2 (outcome supervision). What differs: the paper names neither the kind of deviation nor an
    epsilon; this is Bessel's n - 1, as every public implementation has it.
    """
    values = wide(reward)
    advantage = group_center(values, group)
    if keep_single:
        advantage = torch.where(group_size(group) == 1, values, advantage)
    if scale_by_std:
        std = group_std(values, group)
        # Where the deviation is exactly 0 the difference is 0 already.
        advantage = torch.where(std > 0, advantage / (std + epsilon), advantage)
    return advantage.to(single(reward).dtype)
