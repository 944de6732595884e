"""Every row weighs the same, whatever its length (Shao et al. 2024, GRPO, arXiv:2402.03300, equation 3)."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import Counts


def sequence_mean_token_mean(mask: Bool[Tensor, "B T"], counts: Counts) -> Float[Tensor, " B"]:
    """Return row weights [B]: 1 / (rows of the update); a token loss is first averaged within its row.

        L = mean_i mean_t loss_it

    Rows without a trained token weigh 0 and are not counted. A row reduction: it also takes losses of one value a row.
    Source: equation 3. What differs: rows are counted over the whole optimizer update.
    """
    return mask.any(1).float() / max(counts.rows, 1)
