"""The discounted return of each token: REINFORCE without a baseline (Williams 1992, doi:10.1007/BF00992696)."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from rlcore import math
from rlcore_algorithms.advantages.discount import Discount


def reward_to_go(
    token_reward: Float[Tensor, "B T"], length: Int[Tensor, " B"], *, gamma: Discount = 1.0
) -> Float[Tensor, "B T"]:
    """Return the advantage [B, T]: the discounted sum of the rewards from each token on; 0 beyond `length`.

        A_t = r_t + gamma A_{t+1}

    gamma: discount per sampled token, in [0, 1].

    Source: Williams 1992; with KL in the reward and whitening it is REINFORCE++ (Hu et al. 2025, arXiv:2501.03262).
    What differs: nothing; observations between sampled tokens are not discounted over.
    """
    return math.reward_to_go(token_reward, math.length_mask(length, token_reward.shape[1]), gamma=gamma)
