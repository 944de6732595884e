"""Divergence PPO (Qi et al. 2026, Rethinking the Trust Region in LLM RL, arXiv:2602.04879)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import log_ratio, masked, single
from rlcore.protocols import LossOutput

_TINY = 1e-8


def dppo_tv(
    logprob: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    low: float = 0.15,
    high: float = 0.15,
    ratio_cap: float | None = 20.0,
    pull: float = 0.0,
) -> LossOutput:
    """Return the loss [B, T]: a weighted policy gradient of tokens in a trust region of probability; 0 off the mask.

        r    = exp(logprob - old_logprob)
        keep = p - p_old <= high where A > 0, p - p_old >= -low elsewhere
        loss = -keep stop(min(r, ratio_cap)) A logprob + pull (logprob - old_logprob)^2

    p - p_old is the total variation between "this token" and "any other" (the paper's binary form). A ratio bounds
    rare tokens too much and common ones too little; a difference of probabilities does neither.
    low, high: largest loss and gain of probability, in [0, 1]. ratio_cap: bound on the weight, or None.
    pull: a quadratic pull to the old policy, at kept and dropped tokens alike; not in the paper.
    Measured against old_logprob: the trainer's own, or, after the correction `bypass`, the sampler's, as in the paper.

    Metrics: `clip_share`, tokens that were dropped; `cap_share`, kept ones whose ratio was capped; `old_kl`, in nats.

    Raises ConfigError for bounds outside these ranges.
    Source: the paper's binary total variation. What differs: the log ratio is clamped to +-20.
    """
    _check("dppo_tv", low, high, ratio_cap, pull)
    difference, p, p_old = _probabilities(logprob, old_logprob, mask)
    keep = torch.where(advantage > 0, p - p_old <= high, p - p_old >= -low) & mask.bool()
    return _loss(logprob, old_logprob, advantage, mask, difference, keep, ratio_cap, pull)


def dppo_kl(
    logprob: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    low: float = 0.05,
    high: float = 0.05,
    ratio_cap: float | None = 20.0,
    pull: float = 0.0,
) -> LossOutput:
    """Return the loss [B, T] per token: as dppo_tv, with the KL divergence as the measure; 0 off the mask.

        d    = p_old log(p_old / p) + (1 - p_old) log((1 - p_old) / (1 - p))
        keep = d <= high or p <= p_old where A > 0, d <= low or p >= p_old elsewhere

    low, high: largest divergence, in nats, at least 0, of tokens that lost and that gained probability. The other
    options, the metrics and what raises are those of dppo_tv.
    Source: the paper's binary KL. What differs: the log ratio is clamped to +-20, and 1e-8 is added to 1 - p and
    1 - p_old.
    """
    _check("dppo_kl", low, high, ratio_cap, pull)
    difference, p, p_old = _probabilities(logprob, old_logprob, mask)
    raw = masked(single(logprob) - single(old_logprob), mask).detach()
    divergence = (1 - p_old) * ((1 - p_old + _TINY) / (1 - p + _TINY)).log() - p_old * raw
    keep = torch.where(advantage > 0, (divergence <= high) | (p <= p_old), (divergence <= low) | (p >= p_old))
    return _loss(logprob, old_logprob, advantage, mask, difference, keep & mask.bool(), ratio_cap, pull)


def _check(name: str, low: float, high: float, ratio_cap: float | None, pull: float) -> None:
    if low < 0 or high < 0 or pull < 0:
        raise ConfigError(f"{name}: low={low}, high={high} and pull={pull} must be at least 0")
    if ratio_cap is not None and not ratio_cap >= 1:
        raise ConfigError(f"{name}: ratio_cap={ratio_cap} must be at least 1, or None for no bound")


def _probabilities(logprob: Tensor, old_logprob: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the log ratio (clamped), probability now and before; all without gradient, neutral off the mask."""
    difference = masked(log_ratio(logprob, old_logprob), mask).detach()
    p, p_old = (masked(single(x), mask).detach().exp() for x in (logprob, old_logprob))
    return difference, p, p_old


def _loss(
    logprob: Tensor,
    old_logprob: Tensor,
    advantage: Tensor,
    mask: Tensor,
    difference: Tensor,
    keep: Tensor,
    ratio_cap: float | None,
    pull: float,
) -> LossOutput:
    now, gain = masked(single(logprob), mask), masked(single(advantage), mask)
    ratio = difference.exp()
    loss = -masked(ratio.clamp(max=ratio_cap or torch.inf), keep) * gain * now
    if pull:
        loss = loss + pull * (now - masked(single(old_logprob), mask)).square()
    capped = keep & (ratio > ratio_cap) if ratio_cap is not None else torch.zeros_like(keep)
    metrics: dict[str, Tensor | tuple[Tensor, str]] = {
        "clip_share": (~keep & mask.bool()).to(loss.dtype),
        "cap_share": capped.to(loss.dtype),
        "old_kl": -difference,
    }
    return LossOutput(loss, metrics)
