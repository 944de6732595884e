"""The loss of simple preference optimization (Meng et al. 2024, arXiv:2405.14734, equation 6)."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import masked, masked_mean, pair_difference, single
from rlcore.protocols import LossOutput
from rlcore_algorithms.losses.dpo import pair_metrics


def simpo(
    logprob: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    pair: Int[Tensor, " B"],
    chosen: Bool[Tensor, " B"],
    *,
    beta: float = 2.0,
    gamma: float = 0.5,
) -> LossOutput:
    """Return the loss [B] of each row's pair; no reference model is needed.

        r    = beta mean_t logprob                                     of each answer
        loss = -log sigmoid(r of the chosen answer - r of the rejected one - gamma)

    beta: scale of the reward, above 0. gamma: the least margin that is asked for, 0 or more, in units of the reward.

    Metrics: `accuracy`, the share of pairs with a margin above 0; `margin`; `chosen_reward` and `rejected_reward`, r.

    Raises ConfigError for an option out of its range, ComponentError for a pair with several rows of a side.
    Source: equation 6. What differs: nothing.
    """
    if beta <= 0 or gamma < 0:
        raise ConfigError(f"simpo: beta={beta} must be above 0, gamma={gamma} 0 or more")
    reward = beta * masked_mean(single(logprob), mask, dim=1)
    margin, whole = pair_difference(reward, mask, pair, chosen)
    return LossOutput(masked(-F.logsigmoid(margin - gamma), whole), pair_metrics(reward, margin, chosen, whole))
