"""From what the grader said to what is trained on: where a score is placed, and what a penalty does to it.

Two columns tell the same reward: `reward` [B], a row's, and `token_reward` [B, T], which sums to it. What changes one
changes both. Over the rows of a session they sum to the session's reward.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlcore.math.groups import group_max
from rlcore.math.precision import masked, single


class Shaped(NamedTuple):
    """The reward in both forms: `reward` [B] is the sum of `token_reward` [B, T] over the row."""

    reward: Float[Tensor, "B"]
    token_reward: Float[Tensor, "B T"]


def place_score(
    score: Float[Tensor, "B"],
    sampled: Bool[Tensor, "B T"],
    session: Int[Tensor, "B"] | None = None,
    part: Int[Tensor, "B"] | None = None,
) -> Shaped:
    """The score as a reward on the last sampled token of the last part of each session.

    Not on the last token: a session may end with an observation, and a reward off `sampled` would never be seen. A
    part without a sampled token is passed over; a session without any gets nothing placed, whatever its score (there is
    no action to reward). A score of NaN (not scorable) places 0: such a row has no vote and no gradient later on.
    Without `session` each row is a session of its own.
    """
    answered = sampled.any(1)
    if session is None or part is None:
        last = answered
    else:
        place = torch.where(answered, part, -1).double()
        last = answered & (place == group_max(place, session))
    reward = masked(single(score).nan_to_num(nan=0.0), last)
    index = torch.arange(sampled.shape[1], device=sampled.device)
    at = torch.where(sampled, index, -1).amax(1, keepdim=True) if sampled.shape[1] else index.new_full((len(sampled), 1), -1)
    return Shaped(reward, torch.where(index == at, reward[:, None], 0))


def subtract_penalty(
    reward: Float[Tensor, "B"],
    token_reward: Float[Tensor, "B T"],
    penalty: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
) -> Shaped:
    """Both forms of the reward, less a penalty per token; what is off the mask (tool output, padding) costs nothing."""
    cost = masked(single(penalty), mask)
    return Shaped(single(reward) - cost.sum(1), single(token_reward) - cost)
