"""The importance ratio of a token under two policies, kept finite."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from rlcore.math.precision import single

LIMIT = 20.0
"""Largest absolute log ratio, in nats: e^20 is 4.9e8, and its square is still finite in float32."""


def log_ratio(logprob: Float[Tensor, "*dims"], old_logprob: Float[Tensor, "*dims"]) -> Float[Tensor, "*dims"]:
    """log(pi / pi_old) in nats, clamped to +-20, in float32 (float64 stays).

    The gradient is that of the clamped value: 0 outside +-20.
    """
    return (single(logprob) - single(old_logprob)).clamp(-LIMIT, LIMIT)
