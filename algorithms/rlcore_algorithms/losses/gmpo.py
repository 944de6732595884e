"""Geometric-Mean Policy Optimization (Zhao et al. 2025, arXiv:2507.20673, equation 4)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import LIMITS, Limits, log_ratio, masked, masked_mean, single
from rlcore.protocols import LossOutput

_TINY = 1e-10


def gmpo(
    logprob: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    weight: Float[Tensor, "B T"] | None = None,
    *,
    clip_low: float = 0.4,
    clip_high: float = 0.4,
    row_advantage: bool = False,
    log_ratio_limits: Limits = LIMITS,
) -> LossOutput:
    """Return loss [B, T] and metrics: minus the advantage times the row's geometric mean clipped ratio; 0 off the mask.

        z    = logprob - old_logprob
        z*   = min(z, clip_high) where A > 0, max(z, -clip_low) where A < 0, 0 where A = 0
        loss = -A exp(mean over the row's trained tokens of z*)

    The value is the row's; a token's gradient is that of its own z*, 0 where it was clipped. Where a row's tokens
    share one advantage, as in the paper, its reduction sequence_mean_token_mean makes that the gradient of the mean.
    clip_low, clip_high: bounds of a token's *log* ratio, in nats, at least 0.
    row_advantage: a token's gradient takes the mean advantage of its row; the same where they share one.
    weight: importance weights; a row is one action, so its loss is multiplied by the geometric mean of weight + 1e-10
    over its trained tokens. One weight of 0 beside weights of 1 makes that 10^(-10 / n): 1e-5 for n = 2 trained
    tokens, 0.8 for 100. None is no weight.
    log_ratio_limits: bounds of the log ratio in nats, before the clip.

    Metrics: `clip_share`, tokens that were clipped; `outside_positive_share` and `outside_negative_share`, tokens
    outside the bounds on either side, by the sign of A; `old_kl`, in nats.

    Raises ConfigError for a negative bound.
    Source: equation 4 and algorithm 1. What differs: the log ratio is clamped to +-20.
    """
    if clip_low < 0 or clip_high < 0:
        raise ConfigError(f"gmpo: clip_low={clip_low} and clip_high={clip_high} bound a log ratio from 0, at least 0")
    gain = masked(single(advantage), mask)
    z = masked(log_ratio(logprob, old_logprob, limits=log_ratio_limits), mask)
    near = z.clamp(-clip_low, clip_high)
    chosen = torch.where(gain > 0, torch.minimum(z, near), torch.where(gain < 0, torch.maximum(z, near), 0))
    mean = masked_mean(chosen.detach(), mask, dim=1)[:, None]
    row_gain = masked_mean(gain, mask, dim=1)[:, None] if row_advantage else gain
    loss = -row_gain * (mean + (chosen - chosen.detach())).exp()
    if weight is not None:
        loss = loss * masked_mean((masked(single(weight), mask) + _TINY).log(), mask, dim=1).exp()[:, None]
    outside = near != z
    metrics: dict[str, Tensor | tuple[Tensor, str]] = {
        "clip_share": (chosen != z).to(loss.dtype),
        "outside_positive_share": (outside & (gain > 0)).to(loss.dtype),
        "outside_negative_share": (outside & (gain < 0)).to(loss.dtype),
        "old_kl": -z.detach(),
    }
    return LossOutput(masked(loss, mask), metrics)
