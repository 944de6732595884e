"""Masked statistics, the counts of an optimizer update, and the one way in which token losses become a number.

A loss gives values per token; a reduction turns mask and `Counts` into weights; `weighted_loss` sums. Counts are those
of the whole optimizer update, over all its microbatches, so a split of the rows cannot change the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlcore.errors import ComponentError
from rlcore.math.precision import masked, single


def length_mask(length: Int[Tensor, " B"], width: int) -> Bool[Tensor, "B T"]:
    """Return a mask [B, width] that is on at the first `length` entries of each row."""
    # Comparing 32-bit numbers takes half the time.
    return torch.arange(width, device=length.device, dtype=torch.int32) < length.to(torch.int32)[:, None]


def masked_sum(
    x: Float[Tensor, "*dims"], mask: Bool[Tensor, "*dims"], dim: int | None = None
) -> Float[Tensor, " *rest"]:
    """Return the sum of `x` where `mask` is on: over everything, or along `dim`; 0 where nothing is on."""
    return masked(single(x), mask).sum() if dim is None else masked(single(x), mask).sum(dim)


def masked_mean(
    x: Float[Tensor, "*dims"], mask: Bool[Tensor, "*dims"], dim: int | None = None
) -> Float[Tensor, " *rest"]:
    """Return the mean of `x` where `mask` is on: over everything, or along `dim`; 0 where nothing is on."""
    count = mask.sum() if dim is None else mask.sum(dim)
    return masked_sum(x, mask, dim) / count.clamp(min=1)


def masked_var(x: Float[Tensor, "*dims"], mask: Bool[Tensor, "*dims"], *, bessel: bool = True) -> Float[Tensor, ""]:
    """Return the variance of `x` where `mask` is on, in two passes; 0 where fewer than two are on.

    Divides by n - 1 with `bessel`, else by n.
    """
    squares = masked_sum((x - masked_mean(x, mask)).square(), mask)
    count = mask.sum()
    return torch.where(count < 2, 0, squares / (count - int(bessel)).clamp(min=1))


@dataclass(frozen=True)
class Counts:
    """What a reduction may divide by: the sizes of a whole optimizer update.

    tokens: tokens whose mask is on.
    rows: rows with at least one such token; an all-masked row is in no denominator.
    group_tokens, group_rows: the same for each group id; empty if no groups were given.
    max_new_tokens: the run's bound on new tokens, a constant; None outside a run.
    """

    tokens: int
    rows: int
    group_tokens: Mapping[int, int] = field(default_factory=dict)
    group_rows: Mapping[int, int] = field(default_factory=dict)
    max_new_tokens: int | None = None

    @property
    def groups(self) -> int:
        """Groups with at least one token whose mask is on."""
        return len(self.group_tokens)

    @classmethod
    def of(
        cls, mask: Bool[Tensor, "B T"], group: Int[Tensor, " B"] | None = None, max_new_tokens: int | None = None
    ) -> Counts:
        """Return the counts of rows with this mask and, if given, these group ids."""
        row_tokens: list[int] = mask.bool().sum(1).tolist()
        group_tokens: dict[int, int] = {}
        group_rows: dict[int, int] = {}
        for name, tokens in zip(group.tolist() if group is not None else (), row_tokens, strict=group is not None):
            if tokens:
                group_tokens[name] = group_tokens.get(name, 0) + tokens
                group_rows[name] = group_rows.get(name, 0) + 1
        rows = sum(tokens > 0 for tokens in row_tokens)
        return cls(sum(row_tokens), rows, group_tokens, group_rows, max_new_tokens)


def weighted_loss(
    loss: Float[Tensor, "B T"] | Float[Tensor, " B"],
    weights: Float[Tensor, "B T"] | Float[Tensor, " B"],
    mask: Bool[Tensor, "B T"],
) -> Float[Tensor, ""]:
    """Return the loss of some rows as one number: the sum of weight x loss. Microbatches add up to the whole update.

    Token weights [B, T] need a token loss [B, T]. Row weights [B] take a row loss [B], or a token loss, which is then
    averaged over the row's masked-on tokens. What is off the mask is never looked at.

    Raises ComponentError for a row loss with token weights.
    """
    if weights.dim() == 1:
        rows = masked_mean(loss, mask, dim=1) if loss.dim() == 2 else loss
        return (weights * masked(rows, mask.any(1))).sum()
    if loss.dim() == 1:
        raise ComponentError(
            "a loss of one value per row [B] was given token weights [B, T]; it needs a reduction that returns one "
            "weight per row, as sequence_mean_token_mean does"
        )
    return (weights * masked(loss, mask)).sum()
