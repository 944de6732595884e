"""Optimal token baseline (Li et al. 2026, The Optimal Token Baseline, arXiv:2602.07078)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlcore import math
from rlcore.component import OnlyWith

# About so many rows, whole groups of them, are computed at a time, so that the values stay in the cache.
_ROWS = 512


def token_baseline(
    token_reward: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    old_square_sum: Float[Tensor, "B T"],
    group: Int[Tensor, " B"],
    length: Int[Tensor, " B"],
    mask: Bool[Tensor, "B T"],
    weight: Float[Tensor, "B T"] | None = None,
    *,
    zero_tail: bool = True,
    tail_from: Annotated[Literal["length", "mask"], OnlyWith("zero_tail")] = "length",
    epsilon: float = 1e-8,
    keep_single: bool = False,
) -> Float[Tensor, "B T"]:
    """Return the advantage [B, T]: the return of each token less the weighted mean return of its group at that token.

        e_t = u_t^2 (1 - 2 p_t + sum_v p_tv^2)                  0 for a token that is not trained on
        W_t = sum_{s <= t} e_s
        b_t = sum_j G_jt W_jt / (sum_j W_jt + epsilon)          over the rows j of the group
        A_t = G_t - b_t

    p_t is the probability of the t-th sampled token, p_tv that of the word v of the vocabulary at its place (their
    squares are summed in `old_square_sum`), u_t the token's importance weight (`weight`; 1 without a correction), and
    G_t the sum of the rewards from token t on. e_t is the squared norm of the gradient of u_t log p_t by the logits.
    This baseline has the least variance if the variance of a row's gradient up to token t is proportional to W_t.
    Tokens that tools put between sampled ones are not counted by t (the paper's form for interrupted answers).
    The advantage is 0 off the mask, for a group of one, and for a group in which every token has the same return.

    zero_tail: tokens that only the longest row of a group has are compared with nobody, and their baseline is 0; with
    False it is the formula's, which makes their advantage nearly 0. tail_from: lengths for that count all sampled
    tokens, or those on the `mask`. epsilon: added to the sum of the W.
    keep_single: the baseline is 0 for a group of one, and tokens of the tail keep their return where all are equal.

    Source: the logit-gradient proxy and the cumulative baseline. What differs: a group of one and equal returns give 0.
    """
    dtype = torch.result_type(math.single(token_reward), math.single(old_logprob))
    width = token_reward.shape[1]
    measured = length if tail_from == "length" else (mask & math.length_mask(length, width)).sum(1)
    tail = _tail_start(measured, group, width)
    advantage = torch.empty_like(token_reward, dtype=dtype)
    for rows in _some_groups(group):
        reward, logprob, squares, on = (x[rows] for x in (token_reward, old_logprob, old_square_sum, mask))
        members, real = group[rows], math.length_mask(length[rows], width)
        # As 1 and 0, as several products with the mask follow.
        on, alone = (on & real).to(dtype), math.group_size(members) == 1
        squared_norm = math.single(logprob).exp().mul_(-2).add_(1).add_(math.single(squares))
        if weight is not None:
            squared_norm = squared_norm * math.single(weight[rows]).square()
        # Off the mask all is 0 and finite from here on, so that a product, which is quicker, does for a selection.
        summed_norm = math.masked(squared_norm, on > 0).cumsum(1).mul_(on)
        to_go = math.masked(reward.to(dtype), real).flip(1).cumsum(1).flip(1)
        names, slot = torch.unique(members, return_inverse=True)
        weighted, weights = summed_norm.new_zeros(2, len(names), width)
        weighted.index_add_(0, slot, to_go * summed_norm)
        weights.index_add_(0, slot, summed_norm)
        baseline = (weighted / weights.add_(epsilon))[slot]
        if zero_tail:
            cut = (tail[rows] < width).nonzero().squeeze(1)
            baseline[cut] = math.masked(baseline[cut], math.length_mask(tail[rows][cut], width))
        idle = _equal_returns(to_go, real, members) | alone
        if keep_single:
            baseline[alone] = 0
            idle &= ~alone & (not zero_tail)
        advantage[rows] = to_go.sub_(baseline).mul_(on).mul_(~idle[:, None])
    return advantage


def _some_groups(group: Int[Tensor, " B"]) -> Iterator[slice | Int[Tensor, " R"]]:
    """Return rows, whole groups together, about `_ROWS` at a time: a slice if they stand side by side, or indices."""
    _, slot = torch.unique(group, return_inverse=True)
    size = torch.bincount(slot)
    block = (size.cumsum(0) - size) // _ROWS
    order = torch.argsort(slot, stable=True)
    sizes = torch.bincount(block[slot]).tolist()
    if torch.equal(order, torch.arange(len(order), device=order.device)):
        ends = itertools.accumulate(sizes)
        return (slice(end - size, end) for end, size in zip(ends, sizes, strict=True) if size)
    return (rows for rows in order.split(sizes) if len(rows))


def _equal_returns(
    to_go: Float[Tensor, "B T"], real: Bool[Tensor, "B T"], group: Int[Tensor, " B"]
) -> Bool[Tensor, " B"]:
    """Return True on rows of a group in which all returns, of every row and token, are one number."""
    first = to_go[:, 0]
    varies = ((to_go != first[:, None]) & real).any(1).to(first.dtype)
    return (math.group_max(varies, group) == 0) & (math.group_max(first, group) == math.group_min(first, group))


def _tail_start(length: Int[Tensor, " B"], group: Int[Tensor, " B"], width: int) -> Int[Tensor, " B"]:
    """Return [B] from which token on a row is longer than all others of its group; `width` where it nowhere is."""
    is_longest = length == math.group_max(length.double(), group)
    alone = is_longest & (math.group_sum(is_longest.double(), group) == 1)
    second = math.group_max(length.double().masked_fill(is_longest, 0), group).long()
    return torch.where(alone, second, width)
