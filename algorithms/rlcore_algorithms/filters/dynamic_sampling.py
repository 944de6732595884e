"""Dynamic sampling (Yu et al. 2025, DAPO, arXiv:2503.14476, section 3.2)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rlcore.math import group_max, group_min


def dynamic_sampling(score: Float[Tensor, " B"], group: Int[Tensor, " B"]) -> Int[Tensor, " kept"]:
    """Return rows, as indices into the input, of the groups whose scores are not all equal; order kept, groups whole.

    A group without a difference has no gradient, and its place goes to a fresh prompt. Looked at is the raw score,
    never the shaped reward: a length penalty would let a group of wrong answers pass. Rows that could not be scored
    (NaN) have no vote; a group with fewer than two scored rows goes.

    Source: equation 11, there 0 < correct answers < group size. What differs: scores need not be 0 or 1.
    """
    unscored = score.isnan()
    largest = group_max(score.masked_fill(unscored, -torch.inf), group)
    smallest = group_min(score.masked_fill(unscored, torch.inf), group)
    return (largest > smallest).nonzero().squeeze(1)
