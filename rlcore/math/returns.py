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

# Rows are stored token after token, the recursion walks over tokens: each block is laid out time-major, so that a step
# reads neighbouring memory, and is small enough to stay in the cache.
_BLOCK = 32


def reward_to_go(token_reward: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], *, gamma: float = 1.0) -> Float[Tensor, "B T"]:
    """Discounted sum of the rewards from each token on: G_t = r_t + gamma G_{t+1}; 0 off the mask."""
    returns = torch.empty_like(single(token_reward))
    carried = returns.new_zeros(len(returns))
    for block in _blocks_from_the_end(mask.shape[1]):
        on = _time_major(mask, block).bool()
        back = _scan_back(masked(single(_time_major(token_reward, block)), on), _factor(on, gamma, returns.dtype), carried)
        returns[:, block] = masked(back, on).t()
        carried = back[0]
    return returns


def gae(
    token_reward: Float[Tensor, "B T"],
    value: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    bootstrap_value: Float[Tensor, "B"] | None = None,
) -> Float[Tensor, "B T"]:
    """Generalised advantage estimates; 0 off the mask.

        delta_t = r_t + gamma V_{t+1} - V_t
        A_t     = delta_t + gamma lam A_{t+1}

    V_t is the critic before token t, and V after the last token is `bootstrap_value` [B], 0 by default.
    `lam=1` is the return minus the value, `lam=0` the one-step error.
    Source: Schulman et al. 2016, arXiv:1506.02438, equation 16.
    """
    advantage = torch.empty_like(single(token_reward))
    dtype = advantage.dtype
    carried = advantage.new_zeros(len(advantage))
    following = carried if bootstrap_value is None else bootstrap_value.to(dtype)
    for block in _blocks_from_the_end(mask.shape[1]):
        on = _time_major(mask, block).bool()
        reward, here = (masked(_time_major(x, block).to(dtype), on) for x in (token_reward, value))
        # V of this token, or of the nearest later one that is on: the value that the token before it looks at.
        visible = _scan_back(here, (~on).to(dtype), following)
        after = torch.cat([visible[1:], following[None]])
        delta = masked(reward + gamma * after - here, on)
        back = _scan_back(delta, _factor(on, gamma * lam, dtype), carried)
        advantage[:, block] = masked(back, on).t()
        following, carried = visible[0], back[0]
    return advantage


def _scan_back(x: Float[Tensor, "T B"], factor: Float[Tensor, "T B"], last: Float[Tensor, "B"]) -> Float[Tensor, "T B"]:
    """y_t = x_t + factor_t y_{t+1}, with y after the last row = `last`."""
    y = torch.empty_like(x)
    for t in range(len(x) - 1, -1, -1):
        last = torch.addcmul(x[t], factor[t], last, out=y[t])
    return y


def _factor(on: Bool[Tensor, "T B"], discount: float, dtype: torch.dtype) -> Float[Tensor, "T B"]:
    return torch.where(on, discount, 1.0).to(dtype)


def _time_major(x: Tensor, block: slice) -> Tensor:
    return x[:, block].t().contiguous()


def _blocks_from_the_end(length: int) -> Iterator[slice]:
    for start in range((max(length, 1) - 1) // _BLOCK * _BLOCK, -1, -_BLOCK):
        if start < length:
            yield slice(start, min(start + _BLOCK, length))
