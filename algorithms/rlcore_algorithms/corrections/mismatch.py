"""The log ratio of trainer to sampler at the sampled tokens, which all corrections start from."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import masked, masked_mean, masked_sum, single


def mismatch(
    old_logprob: Float[Tensor, "B T"],
    rollout_logprob: Float[Tensor, "B T"],
    kept_logmass: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
) -> Float[Tensor, "B T"]:
    """Return the log ratio [B, T] of trainer to sampler, in nats, detached and not clamped; 0 off the mask.

        d = (old_logprob - kept_logmass) - rollout_logprob

    The sampler's number is under the distribution that drew the token: after top-p, top-k and min-p, which keep a mass
    of exp(kept_logmass). Taking that off the trainer's makes them comparable.
    """
    comparable = masked(single(old_logprob), mask) - masked(single(kept_logmass), mask)
    return (comparable - masked(single(rollout_logprob), mask)).detach()


def over_row(x: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], how: str) -> Float[Tensor, " B"]:
    """Return the sum, mean or largest `x` of each row's trained tokens; 0 for a row without any."""
    if how == "sum":
        return masked_sum(x, mask, dim=1)
    if how == "mean":
        return masked_mean(x, mask, dim=1)
    largest = x.masked_fill(~mask.bool(), -float("inf")).amax(1)
    return masked(largest, mask.any(1))
