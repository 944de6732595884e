"""Whitening over masked tokens, and the sums from which ranks can whiten together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math.precision import masked, single, wide

# Some entries at a time, so that all that is computed of them stays in the cache.
_BLOCK = 1 << 18


@dataclass(frozen=True)
class Moments:
    """Sum, sum of squares and count of some masked values, with their extremes; parts are added with `+`.

    A rank without a token contributes the zeros of `Moments()` and still takes part.
    """

    sum: float = 0.0
    square_sum: float = 0.0
    count: int = 0
    smallest: float = math.inf
    largest: float = -math.inf

    @classmethod
    def of(cls, x: Float[Tensor, "*dims"], mask: Bool[Tensor, "*dims"]) -> Moments:
        """The moments of `x` where `mask` is on, summed in float64."""
        values = wide(x[mask.bool()])
        if not values.numel():
            return cls()
        return cls(
            float(values.sum()), float(values.square().sum()), values.numel(), float(values.min()), float(values.max())
        )

    def __add__(self, other: Moments) -> Moments:
        """The moments of both parts together."""
        return Moments(
            self.sum + other.sum,
            self.square_sum + other.square_sum,
            self.count + other.count,
            min(self.smallest, other.smallest),
            max(self.largest, other.largest),
        )

    @property
    def mean(self) -> float:
        """The mean; exactly the common value where all are equal, 0 of nothing."""
        if self.smallest == self.largest:
            return self.largest
        return self.sum / max(self.count, 1)

    @property
    def std(self) -> float:
        """The standard deviation with Bessel's n - 1; exactly 0 where all are equal or fewer than two."""
        if self.count < 2 or self.smallest == self.largest:
            return 0.0
        return math.sqrt(max(self.square_sum - self.count * self.mean**2, 0.0) / (self.count - 1))


def whiten(
    x: Float[Tensor, "*dims"],
    mask: Bool[Tensor, "*dims"],
    *,
    shift_mean: bool = True,
    epsilon: float = 1e-6,
    moments: Moments | None = None,
) -> Float[Tensor, "*dims"]:
    """`x` with mean 0 and standard deviation 1 over the masked-on entries; 0 off the mask.

        (x - mean) / (std + epsilon)

    The deviation is Bessel-corrected. Fewer than two masked-on entries are returned unchanged. Where all are equal
    (max == min) the deviation is exactly 0 and the result is 0. `shift_mean=False` adds the mean back.
    `moments`: those of all ranks, added up; by default those of `x` itself, in two passes.
    """
    dtype = single(x).dtype
    found = torch.empty(x.shape, dtype=dtype, device=x.device)
    blocks = [
        (values, on.bool(), place) for values, on, place in zip(_blocks(x), _blocks(mask), _blocks(found), strict=True)
    ]
    if moments is None:
        count, mean, std = _two_pass(blocks)
    else:
        count, mean, std = moments.count, moments.mean, moments.std
    if count < 2:
        return masked(x.to(dtype), mask)
    for values, on, place in blocks:
        result = wide(values).sub(mean).div_(std + epsilon)
        place.copy_(masked(result if shift_mean else result.add_(mean), on))
    return found


def whiten_rows(
    x: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], *, shift_mean: bool = True, epsilon: float = 1e-6
) -> Float[Tensor, "B T"]:
    """`x` with mean 0 and standard deviation 1 where every row has one vote, shared by its masked-on tokens.

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


def _two_pass(blocks: list[tuple[Tensor, Tensor, Tensor]]) -> tuple[int, float, float]:
    """Count, mean and deviation: squares of what is left of the mean keep the digits that a sum of squares loses."""
    first = sum((Moments.of(values, on) for values, on, _ in blocks), Moments())
    squares = sum(float((wide(values[on]) - first.mean).square().sum()) for values, on, _ in blocks)
    return first.count, first.mean, math.sqrt(squares / max(first.count - 1, 1))


def _blocks(x: Tensor) -> tuple[Tensor, ...]:
    return x.reshape(-1).split(_BLOCK)
