"""The loss of Kahneman-Tversky optimization (Ethayarajh et al. 2024, arXiv:2402.01306, equation 8)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import masked, masked_sum, single
from rlcore.protocols import LossOutput


def kto(
    logprob: Float[Tensor, "B T"],
    ref_logprob: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    desirable: Bool[Tensor, " B"],
    mismatch_kl: float,
    *,
    beta: float = 0.1,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
) -> LossOutput:
    """Return the loss [B] per row, of answers that are each desirable or not, without pairs.

        r    = sum_t (logprob - ref_logprob)
        loss = w (1 - sigmoid(beta (r - mismatch_kl)))    of a desirable answer; with the sign turned of another one

    `mismatch_kl` is the mean r of answers beside prompts that are not theirs, in nats, at least 0; it has no gradient.

    beta: risk aversion, above 0. desirable_weight, undesirable_weight: w of each side, above 0.

    Metrics: `desirable_reward`, `undesirable_reward`: the mean beta r of each side.

    Raises ConfigError for an option out of its range.
    Source: equation 8. What differs: nothing.
    """
    if min(beta, desirable_weight, undesirable_weight) <= 0:
        raise ConfigError(f"kto: {beta=}, {desirable_weight=} and {undesirable_weight=} must be above 0")
    ratio = masked_sum(single(logprob) - single(ref_logprob), mask, dim=1)
    sign = torch.where(desirable, 1.0, -1.0).to(ratio.dtype)
    weight = torch.where(desirable, desirable_weight, undesirable_weight).to(ratio.dtype)
    reward = beta * ratio.detach()
    metrics = {
        "desirable_reward": reward.where(desirable, math.nan),
        "undesirable_reward": reward.where(~desirable, math.nan),
    }
    loss = weight * (1 - torch.sigmoid(beta * sign * (ratio - mismatch_kl)))
    return LossOutput(masked(loss, mask.any(1)), metrics)
