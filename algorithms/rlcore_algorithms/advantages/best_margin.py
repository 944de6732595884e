"""Leave-one-out advantage of the best of a group: pass@k (Tang et al. 2025, arXiv:2503.19595)."""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rlcore.component import OnlyWith
from rlcore.math import group_max, group_size, group_std, group_sum, single, wide


def best_margin(
    reward: Float[Tensor, " B"],
    group: Int[Tensor, " B"],
    *,
    scale_by_std: bool = False,
    epsilon: Annotated[float, OnlyWith("scale_by_std")] = 1e-6,
) -> Float[Tensor, " B"]:
    """Return the advantage [B]: for the best of a group its margin over the second best, 0 for the others.

        A_i = max(R) - max_{j != i} R_j

    The objective is the best reward among the prompt's samples; a sample's advantage is by how much that would fall
    without it. So only a single best sample has an advantage; ties, equal rewards and a group of one give 0.
    scale_by_std: divide by the group's standard deviation + epsilon (Bessel).

    Source: the leave-one-out gradient of the max@k objective. What differs: nothing by default; `scale_by_std` is not
    in the paper.
    """
    values = wide(reward)
    is_best = values == group_max(values, group)
    alone = is_best & (group_sum(is_best.to(values.dtype), group) == 1) & (group_size(group) > 1)
    second = group_max(values.masked_fill(is_best, -torch.inf), group)
    margin = torch.where(alone, values - second, 0)
    if scale_by_std:
        # A single best one differs from the rest, so the deviation is not 0 where it is used.
        margin = margin / (group_std(values, group) + epsilon).masked_fill(~alone, 1)
    return margin.to(single(reward).dtype)
