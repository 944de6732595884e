"""The loss of direct preference optimization (Rafailov et al. 2023, arXiv:2305.18290, equation 7)."""

from __future__ import annotations

import math

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import masked, masked_sum, pair_difference, single
from rlcore.protocols import LossOutput


def dpo(
    logprob: Float[Tensor, "B T"],
    ref_logprob: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    pair: Int[Tensor, " B"],
    chosen: Bool[Tensor, " B"],
    *,
    beta: float = 0.1,
    label_smoothing: float = 0.0,
) -> LossOutput:
    """Return the loss [B] of each row's pair.

        r      = beta sum_t (logprob - ref_logprob)                    of each answer
        margin = r of the chosen answer - r of the rejected one
        loss   = -(1 - e) log sigmoid(margin) - e log sigmoid(-margin)

    beta: strength of the pull to the reference, above 0.
    label_smoothing: e, the share of pairs whose sides are taken to be swapped (cDPO, Mitchell 2023); 0 in the paper.

    Metrics: `accuracy`, the share of pairs with a margin above 0; `margin`; `chosen_reward` and `rejected_reward`, r.

    Raises ConfigError for an option out of its range, ComponentError for a pair with several rows of a side.
    Source: equation 7; both rows of a pair have its loss, so that the mean over rows is that over pairs. What differs:
    nothing.
    """
    if beta <= 0 or not 0 <= label_smoothing < 0.5:
        raise ConfigError(f"dpo: beta={beta} must be above 0, label_smoothing={label_smoothing} in [0, 0.5)")
    reward = beta * masked_sum(single(logprob) - single(ref_logprob), mask, dim=1)
    margin, whole = pair_difference(reward, mask, pair, chosen)
    loss = -(1 - label_smoothing) * F.logsigmoid(margin) - label_smoothing * F.logsigmoid(-margin)
    return LossOutput(masked(loss, whole), pair_metrics(reward, margin, chosen, whole))


def pair_metrics(reward: Tensor, margin: Tensor, chosen: Tensor, whole: Tensor) -> dict[str, Tensor]:
    """Return what losses over pairs report, [B]; NaN, which has no vote, at rows of the other side."""
    reward, margin = reward.detach(), margin.detach()
    return {
        "accuracy": (margin > 0).to(margin.dtype).where(whole, math.nan),
        "margin": margin.where(whole, math.nan),
        "chosen_reward": reward.where(chosen & whole, math.nan),
        "rejected_reward": reward.where(~chosen & whole, math.nan),
    }
