"""The plain sum: no denominator at all (Mnih et al. 2016, arXiv:1602.01783, algorithm S3)."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import Counts


def token_sum(mask: Bool[Tensor, "B T"], counts: Counts) -> Float[Tensor, "B T"]:
    """Return token weights [B, T]: 1; 0 off the mask, so the step grows with the tokens of the update.

        L = sum_i sum_t loss_it

    Source: algorithm S3, where gradients of a rollout's steps are added up. What differs: nothing.
    """
    return mask.float()
