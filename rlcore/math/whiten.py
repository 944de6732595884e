"""Whitening: values shifted and scaled to mean 0 and standard deviation 1 over masked entries."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math.precision import masked, single, wide

# Some entries at a time, so that all that is computed of them stays in the cache.
_BLOCK = 1 << 18


def whiten(
    x: Float[Tensor, "*dims"],
    mask: Bool[Tensor, "*dims"],
    *,
    shift_mean: bool = True,
    epsilon: float = 1e-6,
) -> Float[Tensor, "*dims"]:
    """Return `x` with mean 0 and standard deviation 1 over the masked-on entries; 0 off the mask.

        (x - mean) / (std + epsilon)

    The deviation is Bessel-corrected. Fewer than two masked-on entries are returned unchanged. Where all are equal
    (max == min) the deviation is exactly 0 and the result is 0. `shift_mean=False` adds the mean back.
    """
    dtype = single(x).dtype
    whitened = torch.empty(x.shape, dtype=dtype, device=x.device)
    blocks = list(zip(_blocks(x), _blocks(mask.bool()), _blocks(whitened), strict=True))
    count, mean, std = _count_mean_std([wide(values[on]) for values, on, _ in blocks if bool(on.any())])
    if count < 2:
        return masked(x.to(dtype), mask)
    for values, on, place in blocks:
        result = wide(values).sub(mean).div_(std + epsilon)
        place.copy_(masked(result if shift_mean else result.add_(mean), on))
    return whitened


def whiten_rows(
    x: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], *, shift_mean: bool = True, epsilon: float = 1e-6
) -> Float[Tensor, "B T"]:
    """Return `x` with mean 0 and standard deviation 1 where every row has one vote, shared by its masked-on tokens.

        (x - mean) / (std + epsilon),   mean = mean_i mean_t x_it,   std^2 = sum_i mean_t (x_it - mean)^2 / (n - 1)

    n: rows with a masked-on token. For values that are one number per row it is the whitening of those numbers. Fewer
    than two such rows are returned unchanged; where all are equal the result is 0; 0 off the mask.
    """
    values, on = masked(wide(x), mask), mask.bool()
    votes = on.sum(1)
    rows = int((votes > 0).sum())
    if rows < 2:
        return values.to(single(x).dtype)
    smallest, largest = torch.aminmax(values[on])
    votes = votes.clamp(min=1)
    mean = largest if smallest == largest else (values.sum(1) / votes).sum() / rows
    centered = masked(values - mean, on)
    std = ((centered.square().sum(1) / votes).sum() / (rows - 1)).sqrt()
    result = centered / (std + epsilon)
    return masked(result if shift_mean else result + mean, on).to(single(x).dtype)


def _count_mean_std(blocks: list[Tensor]) -> tuple[int, float, float]:
    """Return count, mean and deviation of some values, in float64; where all are equal the mean is exactly that value.

    Two passes: squares of the differences from the mean keep the digits that a sum of squares loses.
    """
    count = sum(values.numel() for values in blocks)
    smallest = min((float(values.min()) for values in blocks), default=0.0)
    largest = max((float(values.max()) for values in blocks), default=0.0)
    mean = largest if smallest == largest else sum(float(values.sum()) for values in blocks) / max(count, 1)
    squares = sum(float((values - mean).square().sum()) for values in blocks)
    return count, mean, math.sqrt(squares / max(count - 1, 1))


def _blocks(x: Tensor) -> tuple[Tensor, ...]:
    return x.reshape(-1).split(_BLOCK)
