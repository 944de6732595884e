"""Soft overlong punishment (Yu et al. 2025, DAPO, arXiv:2503.14476, equation 13)."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import PlacedReward, group_sum, place_on_last_token, single


def soft_overlong(
    reward: Float[Tensor, " B"],
    token_reward: Float[Tensor, "B T"],
    sampled: Bool[Tensor, "B T"],
    session: Int[Tensor, " B"] | None = None,
    segment: Int[Tensor, " B"] | None = None,
    *,
    max_length: int = 20_480,
    buffer: int = 4096,
    factor: float = 1.0,
) -> PlacedReward:
    """Return both forms of the reward less a penalty that grows over the last tokens before `max_length`.

        penalty = factor min(max((L - (max_length - buffer)) / buffer, 0), 1)

    L: sampled tokens of the session; the penalty stands on its last sampled token. Nothing up to max_length - buffer
    tokens, `factor` from max_length on. With buffer 0 only rows beyond `max_length` pay.
    max_length: the bound on new tokens, at least 1. buffer: tokens of the ramp, from 0 to max_length.
    factor: the whole penalty, in units of the reward.

    Raises ConfigError for a max_length or buffer out of range.
    Source: equation 13, with its numbers. What differs: nothing; filters look at the score, which is not changed.
    """
    if max_length < 1 or not 0 <= buffer <= max_length:
        raise ConfigError(
            f"soft_overlong: buffer={buffer} must be between 0 and max_length={max_length}, and max_length at least 1"
        )
    drawn = sampled.sum(1).double()
    over = (drawn if session is None else group_sum(drawn, session)) - (max_length - buffer)
    share = (over / buffer).clamp(0, 1) if buffer else (over > 0).double()
    cost = place_on_last_token(factor * share.to(single(reward).dtype), sampled, session, segment)
    return PlacedReward(single(reward) - cost.reward, single(token_reward) - cost.token_reward)
