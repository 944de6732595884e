"""The plain policy gradient (Williams 1992, REINFORCE, doi:10.1007/BF00992696)."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import masked, single


def policy_gradient(
    logprob: Float[Tensor, "B T"], advantage: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """Return the loss [B, T] per token: -A logprob; 0 off the mask.

    No ratio, so nothing holds it near the policy that drew the tokens: right for one update per step.

    Source: Williams 1992. What differs: nothing.
    """
    return -masked(single(advantage), mask) * masked(single(logprob), mask)
