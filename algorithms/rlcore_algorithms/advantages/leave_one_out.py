"""Leave-one-out baseline (Kool et al. 2019; Ahmadian et al. 2024, RLOO, arXiv:2402.14740)."""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rlcore.component import OnlyWith
from rlcore.math import group_center, group_size, peer_std, single, wide


def leave_one_out(
    reward: Float[Tensor, " B"],
    group: Int[Tensor, " B"],
    *,
    scale_by_std: bool = False,
    epsilon: Annotated[float, OnlyWith("scale_by_std")] = 1e-6,
    keep_single: bool = False,
) -> Float[Tensor, " B"]:
    """Return the advantage [B]: each reward against the mean reward of the prompt's other samples.

        A_i = R_i - sum_{j != i} R_j / (n - 1)

    0 for a single sample, which has nothing to be compared with.
    scale_by_std: divide by the deviation of the *other* samples' rewards; a row whose others are all equal keeps its
    difference undivided. epsilon: added to that deviation. keep_single: a single sample keeps its reward.

    Source: the RLOO estimator. What differs: nothing by default; `scale_by_std` is not in the paper.
    """
    values, n = wide(reward), group_size(group)
    # R - mean of the others = (R - mean of all) n / (n - 1); a single row is 0 by its centring.
    advantage = group_center(values, group) * n / (n - 1).clamp(min=1)
    if keep_single:
        advantage = torch.where(n == 1, values, advantage)
    if scale_by_std:
        std = peer_std(values, group)
        advantage = torch.where(std > 0, advantage / (std + epsilon), advantage)
    return advantage.to(single(reward).dtype)
