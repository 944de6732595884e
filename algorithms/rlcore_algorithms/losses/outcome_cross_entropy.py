"""A reward model trained on outcomes alone (Cui et al. 2025, PRIME, arXiv:2502.01456)."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import masked, masked_sum, single
from rlcore.protocols import LossOutput


def outcome_cross_entropy(
    logprob: Float[Tensor, "B T"],
    ref_logprob: Float[Tensor, "B T"],
    score: Float[Tensor, " B"],
    mask: Bool[Tensor, "B T"],
    *,
    beta: float = 0.05,
) -> LossOutput:
    """Return the loss [B]: cross-entropy of the row's score under the implicit reward of the model that is trained.

        r_i  = beta sum_t (log pi(y_t) - log pi_ref(y_t))
        loss = -score log sigmoid(r_i) - (1 - score) log(1 - sigmoid(r_i))

    A loss per row: it takes row reductions. beta: nats per unit of reward. Scores lie in [0, 1].
    Metrics: `accuracy`, the share of rows whose implicit reward is on the score's side of one half.

    Source: the loss by which the paper trains its implicit reward model on outcomes. What differs: the score may be a
    fraction.
    """
    implicit = beta * masked_sum(single(logprob) - single(ref_logprob), mask, dim=1)
    loss = F.binary_cross_entropy_with_logits(implicit, score.to(implicit.dtype), reduction="none")
    loss = masked(loss, mask.any(1))
    right = (implicit.detach() > 0) == (score > 0.5)
    return LossOutput(loss, {"accuracy": right.to(loss.dtype)})
