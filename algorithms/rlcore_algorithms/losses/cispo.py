"""CISPO: clipped importance sampling weights (MiniMax 2025, MiniMax-M1, arXiv:2506.13585, equations 4 and 5)."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import LIMITS, Limits, log_ratio, masked, row_log_ratio, single
from rlcore.protocols import LossOutput


def cispo(
    logprob: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    clip_low: float = 1.0,
    clip_high: float = 4.0,
    level: Literal["token", "sequence"] = "token",
    log_ratio_limits: Limits = LIMITS,
) -> LossOutput:
    """Return the loss [B, T]: a policy gradient weighted by the clipped ratio, which has no gradient; 0 off the mask.

        r    = exp(logprob - old_logprob)
        loss = -stop(clip(r, 1 - clip_low, 1 + clip_high)) A logprob

    Unlike in PPO no token ever loses its gradient; only its weight is bounded.
    clip_low, clip_high: distances from 1: the weight is at most 1 + clip_high (5 by default), and from 1 - clip_low = 0
    on there is no lower bound. clip_low is at least 0; a clip_high below 0 scales every token down whose ratio is near
    1, and may go as far as -clip_low. Others write the upper bound itself ("epsilon_high = 5").
    level: "sequence" takes one ratio a row in the place of r, s = exp(mean over the row's trained tokens of
    logprob - old_logprob), as GSPO does (arXiv:2507.18071).
    log_ratio_limits: bounds of the log ratio (of its mean) in nats.

    Metrics: `clip_share`, tokens whose weight was clipped; `ratio`, `ratio_max`; `old_kl`, in nats.

    Raises ConfigError for a negative clip_low, and for an upper bound below the lower one.
    Source: equations 4 and 5; the paper has no lower bound and does not name the upper one. What differs: the log
    ratio is clamped to +-20; the level "sequence" is TRL's.
    """
    if clip_low < 0 or clip_high < -clip_low:
        raise ConfigError(
            f"cispo: clip_low={clip_low} and clip_high={clip_high} are distances from 1: clip_low must be at least 0 "
            f"and clip_high at least -clip_low"
        )
    now, gain = masked(single(logprob), mask), masked(single(advantage), mask)
    if level == "sequence":
        difference = row_log_ratio(logprob, old_logprob, mask, limits=log_ratio_limits).detach()
    else:
        difference = masked(log_ratio(logprob, old_logprob, limits=log_ratio_limits), mask).detach()
    ratio = difference.exp()
    weight = ratio.clamp(1 - clip_low, 1 + clip_high)
    metrics: dict[str, Tensor | tuple[Tensor, str]] = {
        "clip_share": (weight != ratio).to(ratio.dtype),
        "ratio": ratio,
        "ratio_max": (ratio, "max"),
        "old_kl": -difference,
    }
    return LossOutput(-weight * gain * now, metrics)
