"""Soft Adaptive Policy Optimization (Gao et al. 2025, arXiv:2511.20347, equations 5 and 6)."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import LIMITS, Limits, log_ratio, masked, row_log_ratio, single
from rlcore.protocols import LossOutput


def sapo(
    logprob: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    temperature_positive: float = 1.0,
    temperature_negative: float = 1.05,
    level: Literal["token", "sequence"] = "token",
    log_ratio_limits: Limits = LIMITS,
) -> LossOutput:
    """Return the loss [B, T] per token: a sigmoid of the ratio in place of PPO's clip; 0 off the mask.

        r    = exp(logprob - old_logprob)
        loss = -(4 / tau) sigmoid(tau (r - 1)) A

    At r = 1 value and slope are those of -(2 / tau + r - 1) A; further off the gradient fades instead of stopping.
    temperature_positive, temperature_negative: tau where A > 0 and where A <= 0, above 0; the larger one lets tokens
    of negative advantage fade sooner.
    level: "sequence" takes one ratio a row in the place of r, s = exp(mean over the row's trained tokens of
    logprob - old_logprob), whose gradient at a token is that of the token's own log-probability, as in GSPO
    (arXiv:2507.18071). log_ratio_limits: bounds of the log ratio (of its mean) in nats.

    Metrics: `gate`, the share of the full gradient that a token keeps, 4 p (1 - p); `ratio`, `ratio_max`; `old_kl`, in
    nats.

    Raises ConfigError for a temperature that is not above 0.
    Source: equations 5 and 6; the paper's reduction is sequence_mean_token_mean. What differs: the log ratio is clamped
    to +-20, with the gradient of the clamped value; the level "sequence" is TRL's.
    """
    if temperature_positive <= 0 or temperature_negative <= 0:
        raise ConfigError(
            f"sapo: temperature_positive={temperature_positive} and temperature_negative={temperature_negative} "
            "must be above 0"
        )
    gain = masked(single(advantage), mask)
    if level == "sequence":
        difference = row_log_ratio(logprob, old_logprob, mask, limits=log_ratio_limits)
    else:
        difference = masked(log_ratio(logprob, old_logprob, limits=log_ratio_limits), mask)
    ratio = difference.exp()
    tau = torch.where(gain > 0, gain.new_tensor(temperature_positive), gain.new_tensor(temperature_negative))
    gate = torch.sigmoid(tau * (ratio - 1))
    metrics: dict[str, Tensor | tuple[Tensor, str]] = {
        "gate": (4 * gate * (1 - gate)).detach(),
        "ratio": ratio.detach(),
        "ratio_max": (ratio.detach(), "max"),
        "old_kl": -difference.detach(),
    }
    return LossOutput(-(4 / tau) * gate * gain, metrics)
