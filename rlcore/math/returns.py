"""Recursions from the last token to the first: discounted returns and generalised advantages.

`[B, T]` in, `[B, T]` out. Tokens off the mask get 0 and are skipped: they discount nothing, and their inputs (NaN
included) are not read. The result is exactly that of the same rows with those tokens removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math.precision import masked, single
from rlcore.math.reduce import length_mask

# Some rows at a time, so that all that is computed of them stays in the cache.
_ROWS = 512


def reward_to_go(
    token_reward: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], *, gamma: float = 1.0
) -> Float[Tensor, "B T"]:
    """Return the discounted sum of the rewards from each token on: G_t = r_t + gamma G_{t+1}; 0 off the mask."""
    returns = torch.empty_like(single(token_reward))
    for rows in _some_rows(len(returns)):
        packed = _PackedLeft(mask[rows])
        returns[rows] = packed.back(_carry(packed.closed(token_reward[rows].to(returns.dtype)), gamma))
    return returns


def gae(
    token_reward: Float[Tensor, "B T"],
    value: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    bootstrap_value: Float[Tensor, " B"] | None = None,
) -> Float[Tensor, "B T"]:
    """Return generalised advantage estimates; 0 off the mask.

        delta_t = r_t + gamma V_{t+1} - V_t
        A_t     = delta_t + gamma lam A_{t+1}

    V_t is the critic before token t, and V after the last token is `bootstrap_value` [B], 0 by default.
    `lam=1` is the return minus the value, `lam=0` the one-step error.
    Source: Schulman et al. 2016, arXiv:1506.02438, equation 16.
    """
    dtype = torch.result_type(single(token_reward), single(value))
    advantage = torch.empty_like(token_reward, dtype=dtype)
    for rows in _some_rows(len(advantage)):
        packed = _PackedLeft(mask[rows])
        reward, here = (packed.closed(column[rows].to(dtype)) for column in (token_reward, value))
        delta = reward.sub_(here)
        delta[:, :-1].add_(here[:, 1:], alpha=gamma)
        if bootstrap_value is not None:
            some = packed.count.nonzero().flatten()
            delta[some, packed.count[some] - 1] += gamma * bootstrap_value[rows].to(dtype)[some]
        advantage[rows] = packed.back(_carry(delta, gamma * lam))
    return advantage


def _carry(x: Float[Tensor, "R T"], factor: float) -> Float[Tensor, "R T"]:
    """Return y with y_t = x_t + factor y_{t+1} and y = 0 after the last token. Overwrites x.

    By doubling: once y_t holds the terms of the next n tokens, one sum over all tokens adds those of n more. The value
    of an entry does not depend on the rows and the padding around it.
    """
    other, reach = torch.empty_like(x), 1
    while reach < x.shape[1] and factor:
        torch.add(x[:, :-reach], x[:, reach:], alpha=factor, out=other[:, :-reach])
        other[:, -reach:] = x[:, -reach:]
        x, other = other, x
        reach, factor = 2 * reach, factor * factor
    return x


class _PackedLeft:
    """Moves tokens to the start of their row, those off the mask [R, T] removed, and back to their places."""

    def __init__(self, mask: Bool[Tensor, "R T"]) -> None:
        self.on = mask.bool()
        self.count = self.on.sum(1)

    @cached_property
    def real(self) -> Bool[Tensor, "R T"]:
        """Return where tokens stand once those off the mask are removed."""
        return length_mask(self.count, self.on.shape[1])

    @cached_property
    def has_holes(self) -> bool:
        """Return whether a token off the mask stands before one that is on."""
        return not torch.equal(self.on, self.real)

    def closed(self, x: Float[Tensor, "R T"]) -> Float[Tensor, "R T"]:
        """Return a copy of a column without the tokens off the mask; 0 after each row's last token."""
        if not self.has_holes:
            return masked(x, self.on)
        closed = torch.zeros_like(x)
        closed[self.real] = x[self.on]
        return closed

    def back(self, x: Float[Tensor, "R T"]) -> Float[Tensor, "R T"]:
        """Return a column with its tokens at their original places; 0 off the mask."""
        if not self.has_holes:
            return x
        restored = torch.zeros_like(x)
        restored[self.on] = x[self.real]
        return restored


def _some_rows(count: int) -> Iterator[slice]:
    return (slice(start, start + _ROWS) for start in range(0, count, _ROWS))
