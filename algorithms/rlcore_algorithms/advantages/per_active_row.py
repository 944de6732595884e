"""Advantages scaled up for rows without one: GPG's gradient estimate (Chu et al. 2025, GPG, arXiv:2504.02546)."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor

from rlcore.math import length_mask, masked, single


def per_active_row(
    advantage: Float[Tensor, "B T"],
    reward: Float[Tensor, " B"],
    length: Int[Tensor, " B"],
    *,
    active: Literal["advantage", "reward"] = "advantage",
) -> Float[Tensor, "B T"]:
    """Return the advantage [B, T] times rows / active rows, as if others were not in the batch; 0 beyond `length`.

        A <- A B / (B - M)                                      M: rows without a gradient

    For a chain, after an estimator: groups that are all right or all wrong have no gradient and would make the mean
    gradient of the batch smaller. Without an active row nothing is changed.
    active: "advantage" counts rows with an advantage that is not 0; "reward" those with a reward that is not 0.

    Source: the accurate gradient estimation. What differs: nothing; "reward" is how one implementation counts.
    """
    values = masked(single(advantage), length_mask(length, advantage.shape[1]))
    counted = (values.amax(1) > 0) | (values.amin(1) < 0) if active == "advantage" else reward != 0
    return values * (len(values) / max(int(counted.sum()), 1))
