"""The loss of a reward model over pairs (Bradley and Terry 1952; Ouyang et al. 2022, arXiv:2203.02155, equation 1)."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlcore.math import masked, masked_sum, pair_difference, single
from rlcore.protocols import LossOutput
from rlcore_algorithms.losses.dpo import pair_metrics


def bradley_terry(
    new_value: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    pair: Int[Tensor, " B"],
    chosen: Bool[Tensor, " B"],
) -> LossOutput:
    """Return the loss [B] of each row's pair: -log sigmoid(score of the chosen answer - score of the rejected one).

    The score of a row is the value at its one token on the mask.

    Metrics: `accuracy`, the share of pairs with a margin above 0; `margin`; `chosen_reward` and `rejected_reward`, the
    scores.

    Raises ComponentError for a pair with several rows of a side.
    Source: equation 1 with K = 2. What differs: nothing.
    """
    score = masked_sum(single(new_value), mask, dim=1)
    margin, whole = pair_difference(score, mask, pair, chosen)
    return LossOutput(masked(-F.logsigmoid(margin), whole), pair_metrics(score, margin, chosen, whole))
