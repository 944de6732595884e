"""The mean over rows of each row's token sum: a sequence is one action (Ahmadian et al. 2024, arXiv:2402.14740)."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import Counts


def sequence_mean_token_sum(mask: Bool[Tensor, "B T"], counts: Counts) -> Float[Tensor, "B T"]:
    """Return token weights [B, T]: 1 / (rows of the update); 0 off the mask.

        L = mean_i sum_t loss_it

    Rows without a trained token are not counted.
    Source: arXiv:2402.14740, equation 6, where the action is the whole sequence. What differs: nothing.
    """
    return mask.float() / max(counts.rows, 1)
