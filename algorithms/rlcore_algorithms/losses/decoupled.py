"""Decoupled PPO (Hilton et al. 2022, arXiv:2110.00641, equation 5; Fu et al. 2025, AReaL, arXiv:2505.24298)."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import log_ratio, masked, single
from rlcore.protocols import LossOutput
from rlcore_algorithms.losses.clipped import clipped


def decoupled(
    logprob: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    rollout_logprob: Float[Tensor, "B T"],
    kept_logmass: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
    weight_cap: float | None = None,
) -> LossOutput:
    """Return the loss [B, T]: PPO's clip around a proximal policy, weighted to the policy that sampled; 0 off the mask.

        w    = exp(old_logprob - kept_logmass - rollout_logprob)
        loss = w clipped(logprob, old_logprob, A)

    Three policies: the behaviour that drew the token (`rollout_logprob`, perhaps several versions old), the proximal
    one around which the ratio is clipped (`old_logprob`, the trainer when the step starts), and the current one. So
    old data can be used while the step itself stays small.
    clip_low, clip_high, dual_clip: those of `clipped`. weight_cap: tokens of a larger w have no loss (and stay in the
    denominators), as in AReaL; None keeps all.

    Metrics: those of `clipped`; `behaviour_weight`, `behaviour_weight_max`; `over_cap_share`, if capped.

    Raises ConfigError for a weight_cap that is not above 0, and as `clipped`.
    Source: Hilton et al., equation 5. What differs: both log ratios are clamped to +-20. Without a cap it is `clipped`
    with the correction `truncated` unbounded; do not use both.
    """
    if weight_cap is not None and weight_cap <= 0:
        raise ConfigError(f"decoupled: weight_cap={weight_cap} must be above 0, or None")
    inner = clipped(logprob, old_logprob, advantage, mask, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    comparable = masked(single(old_logprob) - single(kept_logmass), mask)
    weight = log_ratio(comparable, masked(rollout_logprob, mask)).exp().detach()
    metrics = {
        **inner.metrics,
        "behaviour_weight": weight,
        "behaviour_weight_max": (weight, "max"),
    }
    used = weight
    if weight_cap is not None:
        metrics["over_cap_share"] = (weight > weight_cap).to(weight.dtype)
        used = masked(weight, weight <= weight_cap)
    return LossOutput(inner.loss * used, metrics)
