"""Pairs of rows: one that was chosen and one that was rejected, known by an id that both have."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlcore.errors import ComponentError
from rlcore.math.groups import group_sum
from rlcore.math.precision import masked, single


class PairDifference(NamedTuple):
    """A difference at both rows of each pair [B], and where there is one [B]: both sides have tokens to train on."""

    value: Float[Tensor, " B"]
    whole: Bool[Tensor, " B"]


def pair_difference(
    x: Float[Tensor, " B"], mask: Bool[Tensor, "B T"], pair: Int[Tensor, " B"], chosen: Bool[Tensor, " B"]
) -> PairDifference:
    """Return `x` of the chosen row less `x` of the rejected one; 0 where a side is missing or has nothing on the mask.

    Raises ComponentError for a pair with two rows of one side: it cannot be told which is meant.
    """
    rows = mask.any(1)
    one = torch.ones(len(rows), device=rows.device)
    sides = [group_sum(masked(one, rows & side), pair) for side in (chosen, ~chosen)]
    twice = (sides[0] > 1) | (sides[1] > 1)
    if bool(twice.any()):
        raise ComponentError(
            f"pair {int(pair[twice][0])} has several rows of one side; expected a chosen and a rejected"
        )
    whole = (sides[0] == 1) & (sides[1] == 1) & rows
    values = masked(single(x), whole)
    return PairDifference(group_sum(torch.where(chosen, values, -values), pair), whole)
