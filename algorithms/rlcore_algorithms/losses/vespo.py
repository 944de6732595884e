"""Variational Sequence-Level Soft Policy Optimization (Shen et al. 2026, arXiv:2602.10693)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import log_ratio, masked, masked_sum, single
from rlcore.protocols import LossOutput

_LOWEST, _HIGHEST = math.log(1e-8), 20.0


def vespo(
    logprob: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    weight: Float[Tensor, "B T"] | None = None,
    *,
    power_positive: float = 2.0,
    decay_positive: float = 3.0,
    power_negative: float = 3.0,
    decay_negative: float = 2.0,
) -> LossOutput:
    """Return the loss [B, T]: a policy gradient weighted by a soft function of the row's ratio; 0 off the mask.

        W    = product over the row's trained tokens of weight exp(logprob - old_logprob)
        phi  = W^power exp(decay (1 - W))
        loss = -stop(phi) A logprob

    phi(1) = 1; it falls to 0 on both sides of its peak at W = power / decay, so rows far off either way lose weight.
    power_*, decay_*: at least 0, by the sign of the advantage (A >= 0 is positive).
    weight: importance weights of the sampler's mismatch are part of W.

    Metrics: `phi`; `row_log_ratio`, log W after the clamp; `old_kl`, in nats.

    Raises ConfigError for a negative option.
    Source: the paper's kernel, in the asymmetric form and with the defaults of its reference code. What differs: a
    token's log ratio is clamped to +-20 and log W to [log 1e-8, 20], as in that code.
    """
    options = (power_positive, decay_positive, power_negative, decay_negative)
    if min(options) < 0:
        raise ConfigError(f"vespo: powers and decays {options} must be at least 0")
    now, gain = masked(single(logprob), mask), masked(single(advantage), mask)
    difference = masked(log_ratio(logprob, old_logprob), mask).detach()
    row = masked_sum(difference, mask, dim=1)
    if weight is not None:
        corrections = torch.where(mask, single(weight), 1).log().clamp(_LOWEST, _HIGHEST)
        row = row + masked_sum(corrections, mask, dim=1)
    row = row.clamp(_LOWEST, _HIGHEST)[:, None]
    positive = gain >= 0
    power = torch.where(positive, row.new_tensor(power_positive), row.new_tensor(power_negative))
    decay = torch.where(positive, row.new_tensor(decay_positive), row.new_tensor(decay_negative))
    phi = masked((decay + power * row - decay * row.exp()).exp(), mask)
    metrics: dict[str, Tensor | tuple[Tensor, str]] = {
        "phi": phi,
        "row_log_ratio": row[:, 0],
        "old_kl": -difference,
    }
    return LossOutput(-phi * gain * now, metrics)
