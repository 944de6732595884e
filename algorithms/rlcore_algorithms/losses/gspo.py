"""Group Sequence Policy Optimization (Zheng et al. 2025, arXiv:2507.18071, equations 5 and 13)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import LIMITS, Limits, masked, row_log_ratio, single
from rlcore.protocols import LossOutput


def gspo(
    logprob: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
    dual_clip: float | None = None,
    log_ratio_limits: Limits = LIMITS,
) -> LossOutput:
    """Return the loss [B, T] per token: the clipped surrogate with one ratio a row; 0 off the mask.

        s    = exp(mean over the row's trained tokens of logprob - old_logprob)
        loss = max(-A s, -A clip(s, 1 - clip_low, 1 + clip_high))
        loss = min(loss, -A dual_clip)                              where A < 0, if dual_clip is given

    The value of s is the row's; its gradient at a token is that of the token's own log-probability (equation 14).
    Where a row's tokens share one advantage this is GSPO, in value and gradient; where they do not it is GSPO-token.
    The paper's reduction is sequence_mean_token_mean; with sequence_mean_token_sum it is LUSPO (arXiv:2602.05261),
    which weighs rows by their length.

    clip_low, clip_high: of the row's ratio, hence far smaller than PPO's; clip_low in [0, 1], clip_high >= 0.
    dual_clip: bound, above 1, on the ratio's weight where the advantage is negative.
    log_ratio_limits: bounds of the mean log ratio, in nats.

    Metrics: `clip_share`, tokens at which the clipped side was taken; `ratio` and `ratio_max`, of rows; `old_kl`, the
    mean of old_logprob - logprob, in nats.

    Raises ConfigError for bounds outside these ranges.
    Source: equations 5 and 13; the defaults are section 5.1's. What differs: the mean log ratio is clamped to +-20.
    """
    if not 0 <= clip_low <= 1 or clip_high < 0:
        raise ConfigError(f"gspo: clip_low={clip_low} must be in [0, 1] and clip_high={clip_high} at least 0")
    if dual_clip is not None and not dual_clip > 1:
        raise ConfigError(f"gspo: dual_clip={dual_clip} must be above 1 (it bounds s), or None")
    gain = masked(single(advantage), mask)
    ratio = row_log_ratio(logprob, old_logprob, mask, limits=log_ratio_limits).exp()
    plain, bounded = -gain * ratio, -gain * ratio.clamp(1 - clip_low, 1 + clip_high)
    loss = torch.maximum(plain, bounded)
    if dual_clip is not None:
        loss = torch.minimum(loss, torch.where(gain < 0, -gain * dual_clip, torch.inf))
    row_ratio = masked(ratio.detach(), mask).amax(1)
    metrics: dict[str, Tensor | tuple[Tensor, str]] = {
        "clip_share": (bounded > plain).to(plain.dtype),
        "ratio": row_ratio,
        "ratio_max": (row_ratio, "max"),
        "old_kl": masked(single(old_logprob) - single(logprob), mask).detach(),
    }
    return LossOutput(masked(loss, mask), metrics)
