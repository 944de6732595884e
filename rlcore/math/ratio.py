"""The importance ratio of a token under two policies, kept finite."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from rlcore.math.precision import single

LIMIT = 20.0
"""Largest absolute log ratio, in nats: e^20 is 4.9e8, and its square is still finite in float32."""

Limits = tuple[float | None, float | None]
LIMITS: Limits = (-LIMIT, LIMIT)


def log_ratio(
    logprob: Float[Tensor, "*dims"], old_logprob: Float[Tensor, "*dims"], *, limits: Limits = LIMITS
) -> Float[Tensor, "*dims"]:
    """log(pi / pi_old) in nats, clamped to +-20, in float32 (float64 stays).

    The gradient is that of the clamped value: 0 outside. limits: other bounds, None for no bound on that side; without
    an upper one the ratio of two far policies is infinite.
    """
    return limited(single(logprob) - single(old_logprob), limits)


def limited(x: Float[Tensor, "*dims"], limits: Limits) -> Float[Tensor, "*dims"]:
    """`x` clamped to (lower, upper), with the gradient of the clamped value; None is no bound."""
    lower, upper = limits
    return x if lower is None and upper is None else x.clamp(lower, upper)
