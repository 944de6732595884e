"""The clipped surrogate of PPO (Schulman et al. 2017, arXiv:1707.06347, equation 7), with its usual extensions."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import LIMITS, Limits, log_ratio, masked, single
from rlcore.protocols import LossOutput


def clipped(
    logprob: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
    log_ratio_limits: Limits = LIMITS,
) -> LossOutput:
    """Return the loss [B, T] per token: the pessimistic one of the plain and the clipped surrogate; 0 off the mask.

        r    = exp(logprob - old_logprob)
        loss = max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high))
        loss = min(loss, -A dual_clip)                              where A < 0, if dual_clip is given

    clip_low, clip_high: how far the ratio may fall and rise before a token's gradient stops; clip_low in [0, 1],
    clip_high >= 0. A larger clip_high is DAPO's clip-higher (Yu et al. 2025, arXiv:2503.14476, equation 10).
    dual_clip: bound, above 1, on the ratio's weight where the advantage is negative (Ye et al. 2020, arXiv:1912.09729,
    equation 5); off by default, as in PPO's paper. Above 1 + clip_high it is also the two-sided clip of INTELLECT-2
    (Prime Intellect 2025, arXiv:2505.07291).
    log_ratio_limits: bounds of the log ratio in nats; None is no bound on that side.

    Metrics: `clip_share`, tokens at which the clipped side was taken; `dual_clip_share` likewise, if on;
    `ratio` and `ratio_max`; `old_kl`, the mean of old_logprob - logprob, in nats.

    Raises ConfigError for bounds outside these ranges.
    Source: equation 7. What differs: the log ratio is clamped to +-20, with the gradient of the clamped value.
    """
    _check_bounds(clip_low, clip_high, dual_clip)
    difference = masked(log_ratio(logprob, old_logprob, limits=log_ratio_limits), mask)
    gain = masked(single(advantage), mask)
    ratio = difference.exp()
    plain, bounded = -gain * ratio, -gain * ratio.clamp(1 - clip_low, 1 + clip_high)
    loss = torch.maximum(plain, bounded)
    metrics: dict[str, Tensor | tuple[Tensor, str]] = {
        "clip_share": (bounded > plain).to(loss.dtype),
        "ratio": ratio.detach(),
        "ratio_max": (ratio.detach(), "max"),
        "old_kl": -difference.detach(),
    }
    if dual_clip is not None:
        ceiling = torch.where(gain < 0, -gain * dual_clip, torch.inf)
        metrics["dual_clip_share"] = (loss > ceiling).to(loss.dtype)
        loss = torch.minimum(loss, ceiling)
    return LossOutput(loss, metrics)


def _check_bounds(clip_low: float, clip_high: float, dual_clip: float | None) -> None:
    if not 0 <= clip_low <= 1:
        raise ConfigError(f"clipped: clip_low={clip_low} is not in [0, 1]; the ratio is kept above 1 - clip_low")
    if clip_high < 0:
        raise ConfigError(f"clipped: clip_high={clip_high} is negative; the ratio is kept below 1 + clip_high")
    if dual_clip is not None and not dual_clip > 1:
        raise ConfigError(f"clipped: dual_clip={dual_clip} must be above 1 (it bounds r), or None")
