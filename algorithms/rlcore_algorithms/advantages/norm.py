"""Rewards less a mean, divided by a deviation, each over groups, over the batch, or not at all (GRPO and others)."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rlcore.component import OnlyWith
from rlcore.math import group_center, group_size, group_std, peer_std, single, wide


def norm(
    reward: Float[Tensor, " B"],
    group: Int[Tensor, " B"],
    *,
    center: Literal["group", "batch", "none"] = "group",
    scale: Literal["group", "batch", "none"] = "group",
    leave_one_out: bool = False,
    bessel: Annotated[bool, OnlyWith("scale", "group", "batch")] = True,
    epsilon: Annotated[float, OnlyWith("scale", "group", "batch")] = 1e-6,
    keep_single: bool = False,
) -> Float[Tensor, " B"]:
    """Return the advantage [B]: each reward less a mean, in units of a standard deviation.

        A_i = (R_i - mean(R)) / (std(R) + epsilon)

    0 where a row is centred over itself alone and, exactly, where all that it is centred over are equal.
    center, scale: over whom mean and deviation are taken: the prompt's samples, all rows of the step, or nobody
    (subtract 0, divide by 1).
    leave_one_out: a row has no vote in its own mean and deviation; one whose peers are all equal keeps its difference.
    bessel: the deviation divides by n - 1 (of a row's peers, by their number less one).
    epsilon: added to a deviation that is not 0; where it is exactly 0 nothing is divided.
    keep_single: a row centred over itself alone keeps its reward.

    Named settings: `group_norm` (GRPO, Dr.GRPO), `leave_one_out` (RLOO); center group and scale batch is Lite PPO.
    Source: Shao et al. 2024, arXiv:2402.03300, section 4.1.2 (group, group); Liu et al. 2025, arXiv:2508.08221
    (group, batch). What differs: nothing; each row of the batch has one vote in a mean over the batch.
    """
    values = advantage = wide(reward)
    over = {"group": group, "batch": torch.zeros_like(group)}
    if center != "none":
        advantage, n = group_center(values, over[center]), group_size(over[center])
        if leave_one_out:
            # R - mean of the others = (R - mean of all) n / (n - 1); a single row is 0 by its centring.
            advantage = advantage * n / (n - 1).clamp(min=1)
        if keep_single:
            advantage = torch.where(n == 1, values, advantage)
    if scale != "none":
        std = (peer_std if leave_one_out else group_std)(values, over[scale], bessel=bessel)
        advantage = torch.where(std > 0, advantage / (std + epsilon), advantage)
    return advantage.to(single(reward).dtype)
