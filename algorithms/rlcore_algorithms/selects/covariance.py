"""The covariance of a token's log-probability and its advantage (Cui et al. 2025, arXiv:2505.22617)."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import masked, masked_mean, wide


def covariance(
    logprob: Float[Tensor, "B T"], advantage: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """Return what each token adds [B, T] to the covariance over the update's trained tokens, float64; 0 off the mask.

        (A - mean A) (logprob - mean logprob)

    Tokens far above 0 are those whose reinforcement costs the most entropy. Not divided by the number of tokens.
    Source: the paper's token-wise centred cross-product. What differs: the means are over the whole optimizer update,
    not over a microbatch.
    """
    a, x = masked(wide(advantage), mask), masked(wide(logprob), mask)
    return masked((a - masked_mean(a, mask)) * (x - masked_mean(x, mask)), mask)
