"""The importance ratio of a token under two policies, kept finite."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math.precision import masked, single
from rlcore.math.reduce import masked_mean

LIMIT = 20.0
"""Largest absolute log ratio, in nats: e^20 is 4.9e8, and its square is still finite in float32."""

Limits = tuple[float | None, float | None]
LIMITS: Limits = (-LIMIT, LIMIT)


def log_ratio(
    logprob: Float[Tensor, "*dims"], old_logprob: Float[Tensor, "*dims"], *, limits: Limits = LIMITS
) -> Float[Tensor, "*dims"]:
    """Return log(pi / pi_old) in nats, clamped to +-20, in float32 (float64 stays).

    The gradient is that of the clamped value: 0 outside. limits: other bounds, None for no bound on that side; without
    an upper one the ratio of two far policies is infinite.
    """
    return limited(single(logprob) - single(old_logprob), limits)


def row_log_ratio(
    logprob: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    limits: Limits = LIMITS,
) -> Float[Tensor, "B T"]:
    """Return at each token its row's mean over `mask` of logprob - old_logprob, in nats, clamped; 0 off the mask.

    Its exponential is the length-normalized ratio of a sequence. The value is the row's; the gradient at a token is
    that of the token's own log-probability, so a sum over the row of a function of it, divided by the row's length,
    has the gradient of the function of the mean. limits: as in log_ratio.

    Source: Zheng et al. 2025, GSPO, arXiv:2507.18071, equations 7 and 14. What differs: the clamp to +-20.
    """
    now = masked(single(logprob), mask)
    mean = masked_mean((now - masked(single(old_logprob), mask)).detach(), mask, dim=1)[:, None]
    # now - now.detach() is 0 with the gradient of the token's own log-probability.
    return masked(limited(mean + (now - now.detach()), limits), mask)


def limited(x: Float[Tensor, "*dims"], limits: Limits) -> Float[Tensor, "*dims"]:
    """Return `x` clamped to (lower, upper), with the gradient of the clamped value; None is no bound."""
    lower, upper = limits
    return x if lower is None and upper is None else x.clamp(lower, upper)
