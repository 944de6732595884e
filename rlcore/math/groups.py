"""Statistics over groups of rows, each returned as one value per row.

`group` [B] holds any int64 ids, in any order: members need not be neighbours and groups need not be equally large
(a reshape to (groups, members) is the fault this avoids). "All equal" is decided by max == min, never by a rounded
spread: the mean of such a group is the common value and its std is 0, both exactly.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rlcore.math.precision import single, wide


def _slots(group: Int[Tensor, " B"]) -> tuple[Int[Tensor, " B"], int]:
    ids, slot = torch.unique(group, return_inverse=True)
    return slot, len(ids)


def _sum(x: Float[Tensor, " B"], group: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
    slot, count = _slots(group)
    return x.new_zeros(count).index_add(0, slot, x)[slot]


def _extreme(x: Float[Tensor, " B"], group: Int[Tensor, " B"], which: str) -> Float[Tensor, " B"]:
    slot, count = _slots(group)
    return x.new_zeros(count).scatter_reduce(0, slot, x, which, include_self=False)[slot]


def group_size(group: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
    """Return the number of rows in each row's group, itself included; [B], at least 1."""
    slot, count = _slots(group)
    return torch.bincount(slot, minlength=count)[slot]


def group_sum(x: Float[Tensor, " B"], group: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
    """Return the sum of `x` over each row's group; [B]."""
    return _sum(wide(x), group).to(single(x).dtype)


def group_max(x: Float[Tensor, " B"], group: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
    """Return the largest `x` of each row's group; [B]."""
    return _extreme(single(x), group, "amax")


def group_min(x: Float[Tensor, " B"], group: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
    """Return the smallest `x` of each row's group; [B]."""
    return _extreme(single(x), group, "amin")


def group_mean(x: Float[Tensor, " B"], group: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
    """Return the mean of `x` over each row's group; [B]. Exactly the common value where all are equal."""
    return _mean(wide(x), group).to(single(x).dtype)


def group_center(x: Float[Tensor, " B"], group: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
    """Return `x` minus the mean of its group; [B]. Exactly 0 where all are equal, and for a group of one.

    Better than `x - group_mean(x, group)` where the spread is small beside the mean: the difference is taken
    before anything is rounded to float32.
    """
    return _centered(wide(x), group).to(single(x).dtype)


def group_std(x: Float[Tensor, " B"], group: Int[Tensor, " B"], *, bessel: bool = True) -> Float[Tensor, " B"]:
    """Return the standard deviation of `x` over each row's group, in two passes; [B].

    Divides by n - 1 with `bessel`, else by n. Exactly 0 where all are equal, and for a group of one.
    """
    squares = _sum(_centered(wide(x), group).square(), group)
    return (squares / (group_size(group) - int(bessel)).clamp(min=1)).sqrt().to(single(x).dtype)


def peer_std(x: Float[Tensor, " B"], group: Int[Tensor, " B"], *, bessel: bool = True) -> Float[Tensor, " B"]:
    """Return the standard deviation of `x` over the *other* rows of each row's group; [B].

    Exactly 0 where the others are all equal or fewer than two. With d the centred values, the squares of the others
    about their own mean sum to sum(d^2) - d_i^2 n / (n - 1).
    """
    dtype, x = single(x).dtype, wide(x)
    n = group_size(group)
    d = _centered(x, group)
    squares = _sum(d.square(), group) - d.square() * n / (n - 1).clamp(min=1)
    largest, smallest = x == _extreme(x, group, "amax"), x == _extreme(x, group, "amin")
    at_largest, at_smallest = _sum(largest.to(x.dtype), group), _sum(smallest.to(x.dtype), group)
    # The others are equal exactly if everyone is, or if this row alone stands at one end and they at the other.
    alone_on_top = largest & (at_largest == 1) & (at_smallest == n - 1)
    alone_below = smallest & (at_smallest == 1) & (at_largest == n - 1)
    equal = (largest & smallest) | alone_on_top | alone_below
    return torch.where(equal, 0, squares.clamp(min=0) / (n - 1 - int(bessel)).clamp(min=1)).sqrt().to(dtype)


def _mean(x: Float[Tensor, " B"], group: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
    largest = _extreme(x, group, "amax")
    equal = largest == _extreme(x, group, "amin")
    return torch.where(equal, largest, _sum(x, group) / group_size(group))


def _centered(x: Float[Tensor, " B"], group: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
    return x - _mean(x, group)
