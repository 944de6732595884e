"""The reward per token that an implicit reward model gives (Cui et al. 2025, PRIME, arXiv:2502.01456)."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from rlcore.math import single


class ProcessReward(NamedTuple):
    """What each token is worth, [B, T]."""

    process_reward: Float[Tensor, "B T"]


def implicit_process_reward(
    reward_model_logprob: Float[Tensor, "B T"], ref_logprob: Float[Tensor, "B T"], *, beta: float = 0.05
) -> ProcessReward:
    """Return the reward [B, T] of each token: beta x log ratio of reward model to reference; 0 off the sampled tokens.

    beta: reward per nat. Source: the paper's implicit process reward. What differs: nothing.
    """
    return ProcessReward(beta * (single(reward_model_logprob) - single(ref_logprob)))
