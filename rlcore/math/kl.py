"""Per-token estimates of KL(pi || pi_ref) from one sampled token (Schulman 2020, joschu.net/blog/kl-approx.html).

With d = logprob - ref_logprob, all in nats and float32 (float64 stays); [B, T] in, [B, T] out; 0 where both agree.
In a loss they are differentiated through `logprob`; in a reward they read `old_logprob` in its place.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from rlcore.math.precision import single
from rlcore.math.ratio import log_ratio


def k1(logprob: Float[Tensor, "B T"], ref_logprob: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """d: unbiased, of either sign, with the largest variance. The choice for KL in the reward.

    As a loss its expected gradient is 0, so there it holds nothing back.
    Source: Schulman 2020, estimator k1.
    """
    return single(logprob) - single(ref_logprob)


def k2(logprob: Float[Tensor, "B T"], ref_logprob: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """d^2 / 2: never negative, biased in value; as a loss its expected gradient on policy is that of the KL.

    Source: Schulman 2020, estimator k2.
    """
    return 0.5 * (single(logprob) - single(ref_logprob)).square()


def k3(logprob: Float[Tensor, "B T"], ref_logprob: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """exp(-d) - 1 + d: never negative, unbiased, with a small variance.

    The exponent is clamped to +-20, so value and gradient are finite for any input (the gradient is 0 beyond).
    Source: Schulman 2020, estimator k3; Shao et al. 2024, arXiv:2402.03300, equation 4. What differs: the clamp;
    the value itself is not clamped, which would cut the gradient of every token more than 2.5 nats away.
    """
    d = log_ratio(ref_logprob, logprob)
    # expm1 keeps the digits that exp(d) - 1 loses near 0; rounding may still leave -1e-15.
    return (torch.expm1(d) - d).clamp(min=0)
