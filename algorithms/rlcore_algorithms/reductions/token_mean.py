"""Every token weighs the same (Yu et al. 2025, DAPO, arXiv:2503.14476, equation 12)."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import Counts


def token_mean(mask: Bool[Tensor, "B T"], counts: Counts) -> Float[Tensor, "B T"]:
    """Return token weights [B, T]: 1 / (tokens of the update); 0 off the mask, so long rows weigh more.

        L = sum_i sum_t loss_it / tokens

    Source: equation 12. What differs: the mean is over all prompts at once, as in the authors' code (the equation has
    it within each prompt: prompt_mean), and over the whole optimizer update, all its microbatches.
    """
    return mask.float() / max(counts.tokens, 1)
