"""Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438, equation 16)."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from rlcore import math
from rlcore_algorithms.advantages.discount import Discount


class AdvantageAndReturns(NamedTuple):
    """Targets of the policy and of the critic, both [B, T]."""

    advantage: Float[Tensor, "B T"]
    returns: Float[Tensor, "B T"]


def gae(
    token_reward: Float[Tensor, "B T"],
    value: Float[Tensor, "B T"],
    length: Int[Tensor, " B"],
    bootstrap_value: Float[Tensor, " B"] | None = None,
    *,
    gamma: Discount = 1.0,
    lam: Discount = 1.0,
) -> AdvantageAndReturns:
    """Return the advantage [B, T] by a critic and the returns [B, T] that the critic is trained on; 0 beyond `length`.

        delta_t = r_t + gamma V_{t+1} - V_t
        A_t     = delta_t + gamma lam A_{t+1}
        returns = A + V

    gamma: discount per sampled token, in [0, 1]. lam, in [0, 1]: 1 is return minus value, 0 the one-step error.
    bootstrap_value: the critic after the last token, for rows that were cut off; 0 for finished ones, and if absent.

    Source: equation 16. What differs: observations between sampled tokens are stepped over without a discount (they are
    not among the tokens handed in), and a token that a correction masks keeps its place, its value and its reward.
    Whitening is a step of its own (`advantage=[gae, whiten]`), so the returns are never whitened.
    """
    real = math.length_mask(length, token_reward.shape[1])
    advantage = math.gae(token_reward, value, real, gamma=gamma, lam=lam, bootstrap_value=bootstrap_value)
    return AdvantageAndReturns(advantage, (advantage + value).masked_fill_(~real, 0))
