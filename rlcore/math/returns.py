"""Recursions from the last token to the first: discounted returns and generalised advantages.

`[B, T]` in, `[B, T]` out. Tokens off the mask are stepped over: what is carried passes them unchanged and undiscounted,
they get 0, and their inputs (NaN included) are never looked at. So the result with holes equals, exactly, that of the
same rows with the holes cut out.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math.precision import masked, single

# Rows are stored token after token, but the recursion walks over tokens: some rows at a time are laid out time-major,
# so that a step reads neighbouring memory. More rows leave the cache, fewer make steps too short to be worth a call.
_ROWS = 2048


def reward_to_go(
    token_reward: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], *, gamma: float = 1.0
) -> Float[Tensor, "B T"]:
    """Discounted sum of the rewards from each token on: G_t = r_t + gamma G_{t+1}; 0 off the mask."""
    returns = torch.empty_like(single(token_reward))
    for rows in _some_rows(len(returns)):
        reward, on = _time_major(rows, mask, token_reward, dtype=returns.dtype)
        carried = _scan_back(reward, (1 - on).add_(on, alpha=gamma), reward.new_zeros(reward.shape[1]))
        returns[rows] = carried.mul_(on).t()
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
    """Generalised advantage estimates; 0 off the mask.

        delta_t = r_t + gamma V_{t+1} - V_t
        A_t     = delta_t + gamma lam A_{t+1}

    V_t is the critic before token t, and V after the last token is `bootstrap_value` [B], 0 by default.
    `lam=1` is the return minus the value, `lam=0` the one-step error.
    Source: Schulman et al. 2016, arXiv:1506.02438, equation 16.
    """
    dtype = torch.result_type(single(token_reward), single(value))
    advantage = torch.empty_like(token_reward, dtype=dtype)
    last = advantage.new_zeros(len(advantage)) if bootstrap_value is None else bootstrap_value.to(dtype)
    for rows in _some_rows(len(advantage)):
        reward, here, on = _time_major(rows, mask, token_reward, value, dtype=dtype)
        off = 1 - on
        # V of this token, or of the nearest later one that is on: the value that the token before it looks at.
        visible = _scan_back(here, off, last[rows])
        after = torch.cat([visible[1:], last[None, rows]])
        delta = (reward - here).addcmul_(after, on, value=gamma)
        carried = _scan_back(delta, off.add_(on, alpha=gamma * lam), torch.zeros_like(last[rows]))
        advantage[rows] = carried.mul_(on).t()
    return advantage


def _scan_back(
    x: Float[Tensor, "T B"], factor: Float[Tensor, "T B"], last: Float[Tensor, " B"]
) -> Float[Tensor, "T B"]:
    """y_t = x_t + factor_t y_{t+1}, with y after the last row = `last`."""
    y = torch.empty_like(x)
    for t in range(len(x) - 1, -1, -1):
        last = torch.addcmul(x[t], factor[t], last, out=y[t])
    return y


def _time_major(
    rows: slice, mask: Bool[Tensor, "B T"], *columns: Float[Tensor, "B T"], dtype: torch.dtype
) -> list[Float[Tensor, "T R"]]:
    """Each column of some rows as [T, R] with 0 off the mask, and the mask itself as 1 and 0.

    Selected here once, before the layout turns (runs of a row are quick to select, scattered entries are not); from
    here on everything is finite, so products with the mask are safe.
    """
    chosen = [masked(column[rows].to(dtype), mask[rows]) for column in columns]
    return [column.t().contiguous() for column in (*chosen, mask[rows].to(dtype))]


def _some_rows(count: int) -> Iterator[slice]:
    return (slice(start, start + _ROWS) for start in range(0, count, _ROWS))
