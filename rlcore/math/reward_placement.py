"""From the score of a completion to the reward that is trained on: on which token it is placed, and KL penalties.

Two columns hold the same reward: `reward` [B], of a row, and `token_reward` [B, T], which sums to it. What changes one
changes both. Over the rows of a session they sum to the session's reward.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlcore.math.groups import group_max, group_sum
from rlcore.math.precision import masked, single


class PlacedReward(NamedTuple):
    """The reward in both forms: `reward` [B] is the sum of `token_reward` [B, T] over the row."""

    reward: Float[Tensor, " B"]
    token_reward: Float[Tensor, "B T"]


def place_on_last_token(
    score: Float[Tensor, " B"],
    sampled: Bool[Tensor, "B T"],
    session: Int[Tensor, " B"] | None = None,
    segment: Int[Tensor, " B"] | None = None,
) -> PlacedReward:
    """Return the score as a reward on the last sampled token of the last segment of each session.

    Not on the last token: a session may end with an observation, and a reward off `sampled` would never be seen. A
    segment without a sampled token is passed over; a session without any gets no reward, whatever its score (there is
    no action to reward). An unscored row (NaN) gets 0 here, and is left out of statistics and gradients later on.
    Without `session` each row is a session of its own.
    """
    answered = sampled.any(1)
    if session is None or segment is None:
        last = answered
    else:
        place = torch.where(answered, segment, -1).double()
        last = answered & (place == group_max(place, session))
    reward = masked(single(score), last & ~score.isnan())
    # Sampled tokens from here to the end of the row: 1 only at the last of them.
    remaining = sampled.long().flip(1).cumsum(1).flip(1)
    return PlacedReward(reward, torch.where(sampled & (remaining == 1), reward[:, None], 0))


def place_turn_rewards(
    score: Float[Tensor, " B"],
    turn_reward: Float[Tensor, "B T"],
    sampled: Bool[Tensor, "B T"],
    session: Int[Tensor, " B"] | None = None,
    segment: Int[Tensor, " B"] | None = None,
) -> PlacedReward:
    """Return the rewards of turns where they stand, and what the score has beyond their sum on the last token.

    Over the rows of a session the reward sums to its score. An unscored row (NaN) gets 0.
    """
    placed = masked(single(turn_reward), sampled & ~score.isnan()[:, None])
    earned = placed.sum(1) if session is None else group_sum(placed.sum(1), session)
    rest = place_on_last_token(single(score) - earned, sampled, session, segment)
    return PlacedReward(placed.sum(1) + rest.reward, placed + rest.token_reward)


def subtract_kl(
    reward: Float[Tensor, " B"],
    token_reward: Float[Tensor, "B T"],
    sampled: Bool[Tensor, "B T"],
    kl: Float[Tensor, "B T"],
    coefficient: float,
) -> PlacedReward:
    """Return both forms of the reward less coefficient x KL at every sampled token; other tokens cost nothing.

        r_t <- r_t - coefficient KL_t

    Source: Ziegler et al. 2019, arXiv:1909.08593, equation 2.
    """
    cost = coefficient * masked(single(kl), sampled)
    return PlacedReward(single(reward) - cost.sum(1), single(token_reward) - cost)
