"""The reward of a greedy answer as the baseline (Li et al. 2024, ReMax, arXiv:2310.10505)."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from rlcore import math


def greedy_baseline(
    token_reward: Float[Tensor, "B T"], greedy_reward: Float[Tensor, " B"], length: Int[Tensor, " B"]
) -> Float[Tensor, "B T"]:
    """Return the advantage [B, T]: rewards summed from each token on, less the reward of a greedy answer to the prompt.

        A_t = sum_{s >= t} r_s - R_greedy                       0 beyond `length`

    Reading `greedy_reward` is what makes a run draw one greedy answer per prompt; it is never trained on. Needs no
    group: one sample of a prompt is enough.

    Source: the ReMax gradient estimate. What differs: the paper has one reward per answer; here each
    token may have its own (KL in the reward).
    """
    real = math.length_mask(length, token_reward.shape[1])
    to_go = math.reward_to_go(token_reward, real)
    return to_go.sub_(math.single(greedy_reward)[:, None]).masked_fill_(~real, 0)
