"""Whitening of advantages over the batch (Andrychowicz et al. 2021, arXiv:2006.05990, choice C67)."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore import math


def whiten(
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    vote: Literal["token", "row"] = "token",
    shift_mean: bool = True,
    epsilon: float = 1e-6,
) -> Float[Tensor, "B T"]:
    """Return the advantage [B, T] with mean 0 and deviation 1 over all trained tokens of the step; 0 off the mask.

        A <- (A - mean(A)) / (std(A) + epsilon)

    For a chain: `advantage=[gae, whiten]`. Fewer than two trained tokens (rows) are left as they are; equal advantages
    (max == min) become 0.
    vote: "token" gives every trained token one vote, so long rows weigh more than short ones; "row" gives every row
    one, which its tokens share.
    shift_mean: False keeps the mean and changes the scale alone. epsilon: added to the deviation.

    Source: per-batch advantage normalisation, choice C67. What differs: statistics are those of the whole step, not of
    a minibatch, so the size of the minibatches changes nothing; the deviation is Bessel-corrected.
    """
    if vote == "row":
        return math.whiten_rows(advantage, mask, shift_mean=shift_mean, epsilon=epsilon)
    return math.whiten(advantage, mask, shift_mean=shift_mean, epsilon=epsilon)
