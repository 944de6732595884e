"""Advantages multiplied by a constant."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from rlcore.math import length_mask, masked, single


def scale(advantage: Float[Tensor, "B T"], length: Int[Tensor, " B"], *, factor: float = 1.0) -> Float[Tensor, "B T"]:
    """Return the advantage [B, T] times `factor`; 0 beyond `length`.

        A <- factor A

    For a chain: `advantage=[leave_one_out, scale]`. Under an optimizer that normalises gradients (Adam) a factor
    changes the weight of this term against others (KL, entropy) and what clipping of the gradient norm does.

    Source: none; a step of a chain.
    """
    return masked(single(advantage), length_mask(length, advantage.shape[1])) * factor
