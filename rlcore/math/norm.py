"""The one record behind the group family of estimators: what is subtracted from a reward, and what divides it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rlcore.math.groups import group_center, group_size, group_std, peer_std
from rlcore.math.precision import single, wide

Over = Literal["group", "batch", "none"]


@dataclass(frozen=True)
class Norm:
    """Rewards centred and scaled over the group, the whole batch, or not at all.

        (x - center) / (scale + epsilon)

    center, scale: over which rows the mean and the standard deviation are taken; "none" subtracts 0, divides by 1.
    leave_one_out: a row has no vote in its own mean and deviation.
    bessel: the deviation divides by n - 1 (for a row's peers: by their number less one).
    epsilon: added outside the root, to a deviation that is not 0.
    keep_single: a row that is centred over itself alone keeps its value instead of getting 0.

    Where rows are centred over fewer than two, the result is 0: one sample says nothing about itself. Where the
    deviation is exactly 0 nothing is divided: without `leave_one_out` the row is then 0 already, and with it a row
    whose peers are all equal keeps its difference from them instead of that difference times 1e6.
    """

    center: Over = "group"
    scale: Over = "group"
    leave_one_out: bool = False
    bessel: bool = True
    epsilon: float = 1e-6
    keep_single: bool = False

    def __call__(self, x: Float[Tensor, " B"], group: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
        """`x` [B] normalised; `group` [B] says who belongs together."""
        values = wide(x)
        rows = {"group": group, "batch": torch.zeros_like(group)}
        result = values
        if self.center != "none":
            result = group_center(values, rows[self.center])
            n = group_size(rows[self.center])
            if self.leave_one_out:
                # x - mean of the others = (x - mean of all) n / (n - 1); a single row is 0 by its centring.
                result = result * n / (n - 1).clamp(min=1)
            if self.keep_single:
                result = torch.where(n == 1, values, result)
        if self.scale != "none":
            deviation = (peer_std if self.leave_one_out else group_std)(values, rows[self.scale], bessel=self.bessel)
            result = torch.where(deviation > 0, result / (deviation + self.epsilon), result)
        return result.to(single(x).dtype)
