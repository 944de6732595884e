"""Outcome and process rewards, each against the prompt's other samples (Cui et al. 2025, PRIME, arXiv:2502.01456)."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from rlcore.math import group_size, length_mask, masked, reward_to_go, single
from rlcore_algorithms.advantages.discount import Discount
from rlcore_algorithms.advantages.leave_one_out import leave_one_out


def process_leave_one_out(
    reward: Float[Tensor, " B"],
    process_reward: Float[Tensor, "B T"],
    group: Int[Tensor, " B"],
    length: Int[Tensor, " B"],
    *,
    gamma: Discount = 1.0,
    process_weight: float = 1.0,
) -> Float[Tensor, "B T"]:
    """Return the advantage [B, T]: a leave-one-out outcome plus the leave-one-out process reward that is still to come.

        b_i   = mean over the prompt's other samples of their mean process reward per token
        A_i,t = process_weight sum_{s >= t} gamma^(s - t) (r_i,s - b_i)  +  R_i - mean of the other outcomes

    0 for a single sample. gamma: discount per sampled token, in [0, 1]. process_weight: of the process part.

    Source: the paper's advantage, leave-one-out for both rewards. What differs: nothing.
    """
    real = length_mask(length, process_reward.shape[1])
    process = masked(single(process_reward), real)
    row_mean = process.sum(1) / length.clamp(min=1)
    others = row_mean - leave_one_out(row_mean, group)
    to_come = reward_to_go(process.sub_(others[:, None]), real, gamma=gamma)
    advantage = to_come.mul_(process_weight).add_(leave_one_out(single(reward), group)[:, None])
    compared = length * (group_size(group) > 1)
    return advantage.masked_fill_(~length_mask(compared, process.shape[1]), 0)
