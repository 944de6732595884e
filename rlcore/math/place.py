"""Placing a score on tokens, and taking a KL penalty off it: what stands between a grade and what is trained on."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Placed(NamedTuple):
    """What is trained on: per row `[B]`, and placed on tokens `[B, T]`."""

    reward: Tensor
    token_reward: Tensor


class Penalized(NamedTuple):
    """The reward after a KL penalty, and the KL estimate `[B, T]` that was taken off, in nats."""

    reward: Tensor
    token_reward: Tensor
    kl: Tensor


def place_on_last_token(
    score: Float[Tensor, "B"], sampled: Bool[Tensor, "B T"], session: Int[Tensor, "B"], part: Int[Tensor, "B"]
) -> Placed:
    """Return each session's score on the last sampled token of its last part that has one; 0 elsewhere.

    A session without any sampled token gets nothing: there is no token whose choice could have earned it.
    """
    score = score.float()
    reward, token_reward = torch.zeros_like(score), torch.zeros(sampled.shape, dtype=score.dtype)
    if not sampled.numel():
        return Placed(reward, token_reward)
    places = torch.arange(sampled.shape[1])
    last = torch.where(sampled, places, -1).amax(dim=1)
    # The last part with a sampled token takes the reward; ties cannot occur, since parts of a session are numbered.
    order = torch.where(last >= 0, part, -1)
    _, inverse = torch.unique(session, return_inverse=True)
    newest = torch.full((int(inverse.max()) + 1,), -1, dtype=order.dtype).scatter_reduce(0, inverse, order, "amax")
    takes = (last >= 0) & (order == newest[inverse])
    reward = torch.where(takes, score, 0.0)
    token_reward[takes, last[takes]] = reward[takes]
    return Placed(reward, token_reward)


def take_off_kl(
    reward: Float[Tensor, "B"], token_reward: Float[Tensor, "B T"], sampled: Bool[Tensor, "B T"], kl: Float[Tensor, "B T"], coefficient: float
) -> Penalized:
    """Return the reward minus coefficient x KL at every sampled token; tool and prompt tokens cost nothing."""
    kl = torch.where(sampled, kl, 0.0)
    return Penalized(reward - coefficient * kl.sum(dim=1), token_reward - coefficient * kl, kl)
