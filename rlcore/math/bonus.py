"""A term that rewards entropy (Mnih et al. 2016, A3C, arXiv:1602.01783, section 4)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from rlcore.math.precision import single


def entropy_bonus(entropy: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Return the loss [B, T] per token, in nats: -entropy, so that a positive coefficient keeps the entropy up.

    Source: section 4. What differs: nothing; the entropy is that of the distribution at the sampling temperature.
    """
    return -single(entropy)
