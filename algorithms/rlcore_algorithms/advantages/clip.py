"""Advantages clipped to a lower and an upper bound."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import length_mask, masked, single


def clip(
    advantage: Float[Tensor, "B T"], length: Int[Tensor, " B"], *, low: float | None = None, high: float | None = None
) -> Float[Tensor, "B T"]:
    """Return the advantage [B, T] between `low` and `high`; 0 beyond `length`.

        A <- min(max(A, low), high)

    For a chain: `advantage=[gae, whiten, clip]`. low, high: None leaves that side open; low=0 keeps only what was
    better than expected.

    Raises ConfigError if low is above high.
    Source: none; a step of a chain (low=0 is filtered imitation, Oh et al. 2018, arXiv:1806.05635, equation 2).
    """
    if low is not None and high is not None and low > high:
        raise ConfigError(f"clip: low={low} is above high={high}")
    values = single(advantage)
    bounded = values if low is None and high is None else values.clamp(low, high)
    return masked(bounded, length_mask(length, values.shape[1]))
