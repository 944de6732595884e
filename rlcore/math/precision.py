"""The float type in which formulas are computed, and how a mask is applied."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor


def single(x: Shaped[Tensor, "*dims"]) -> Float[Tensor, "*dims"]:
    """Return `x` in float32; float64 stays float64."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def wide(x: Shaped[Tensor, "*dims"]) -> Float[Tensor, "*dims"]:
    """Return `x` in float64, for statistics that are divided by a small spread; float32 where a device has no float64.

    Rewards of 1000 +- 0.01 lose a hundredth of their spread in a float32 mean, and more or less of it in another
    order of the rows.
    """
    return single(x) if x.device.type == "mps" else x.double()


def masked(x: Float[Tensor, "*dims"], mask: Bool[Tensor, "*dims"]) -> Float[Tensor, "*dims"]:
    """Return `x` where `mask` is on, 0 elsewhere.

    A selection and never a product: NaN and infinities off the mask reach neither the value nor, if this stands
    before the first nonlinear step, the gradient (0 x inf is NaN, also in a backward pass).
    """
    return torch.where(mask.bool(), x, 0)
