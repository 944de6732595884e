"""One token per row from logits: temperature, truncation, inverse of the cumulative distribution.

A row's draw depends on its logits, its parameters and its uniform number alone, never on the rows beside it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Up to this many ids the cumulative sum runs over all of them at once; beyond, over blocks and then within one.
BLOCK = 512
# As many of the largest logits are looked at first when a large vocabulary is truncated.
FIRST_LOOK = 1024

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class SampledTokens(NamedTuple):
    """Ids `[R]`, their log-probabilities under the distribution that drew them, and the log of the kept mass (<= 0)."""

    token: Tensor
    logprob: Tensor
    kept_logmass: Tensor


class SamplingShape(NamedTuple):
    """How each row's distribution is shaped, `[R]` each: see `rlcore.protocols.SamplingParams`."""

    temperature: Tensor
    top_p: Tensor
    top_k: Tensor
    min_p: Tensor
    greedy: Tensor


def uniform(seed: NDArray[np.uint64], place: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return one number in [0, 1) per (seed, place), independent of every other pair.

    A counter-based generator: SplitMix64's output function (Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195)
    over the place, from a start that is the mixed seed, so that neighbouring seeds do not share a sequence.
    """
    with np.errstate(over="ignore"):
        state = _mix(seed + _GOLDEN) + (place.astype(np.uint64) + np.uint64(1)) * _GOLDEN
        return (_mix(state) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def draw(logits: Tensor, number: Tensor, shape: SamplingShape) -> SampledTokens:
    """Return one id per row of `logits` `[R, V]` (float32; may be overwritten).

    `number` `[R]` (float64) is uniform in [0, 1): the id is the first whose cumulative probability passes it.
    `logprob` is the log-probability at the temperature among the kept ids; adding `kept_logmass` gives it among all,
    which is what a trainer computes. Truncation goes as in transformers: top-k, then top-p among those, then min-p.
    A greedy row keeps its largest logit alone: `logprob` is 0.
    """
    if not bool((shape.temperature == 1).all()):
        logits = logits.div_(shape.temperature[:, None])
    truncated = ((shape.top_p < 1) | (shape.top_k > 0) | (shape.min_p > 0)) & ~shape.greedy
    kinds = ((shape.greedy, _draw_greedy), (truncated, _draw_truncated), (~shape.greedy & ~truncated, _draw_plain))
    out: SampledTokens | None = None
    for chosen, drawer in kinds:
        if bool(chosen.all()):
            return drawer(logits, number, shape)
        if bool(chosen.any()):
            part = drawer(logits[chosen], number[chosen], SamplingShape(*(x[chosen] for x in shape)))
            if out is None:
                out = SampledTokens(*(torch.empty(len(logits), dtype=x.dtype, device=x.device) for x in part))
            for whole, piece in zip(out, part, strict=True):
                whole[chosen] = piece
    assert out is not None, "no rows to draw for"
    return out


def _draw_greedy(logits: Tensor, _number: Tensor, _shape: SamplingShape) -> SampledTokens:
    best, token = logits.max(-1)
    return SampledTokens(token, torch.zeros_like(best), (best - logits.logsumexp(-1)).clamp_max_(0.0))


def _draw_plain(logits: Tensor, number: Tensor, _shape: SamplingShape) -> SampledTokens:
    rows, vocabulary = logits.shape
    top = logits.amax(-1, keepdim=True)
    mass = (logits - top).exp_()
    if vocabulary <= BLOCK:
        token, total = _invert(mass.double().cumsum(-1), number)
    else:
        blocks = -(-vocabulary // BLOCK)
        mass = torch.nn.functional.pad(mass, (0, blocks * BLOCK - vocabulary)).view(rows, blocks, BLOCK)
        before = mass.sum(-1).double().cumsum(-1)
        block, total = _invert(before, number)
        passed = torch.where(block > 0, before.gather(1, (block - 1).clamp_min(0)[:, None])[:, 0], 0.0)
        inside = mass[torch.arange(rows, device=block.device), block].double().cumsum(-1)
        share = (number * total - passed).clamp_min_(0.0) / inside[:, -1]
        token = block * BLOCK + _invert(inside, share.clamp_max_(1.0))[0]
    chosen = logits.gather(1, token[:, None]) - top
    # Rounding must not make a probability above 1.
    logprob = (chosen[:, 0] - total.log().to(logits.dtype)).clamp_max_(0.0)
    return SampledTokens(token, logprob, torch.zeros_like(logprob))


def _invert(cumulative: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
    """The first place whose cumulative mass passes `number` x the total, and the total; never a place without mass."""
    total = cumulative[:, -1]
    # The product may round up to the total, past the last place that has mass.
    goal = torch.minimum(number * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, goal[:, None], right=True)[:, 0], total


def _draw_truncated(logits: Tensor, number: Tensor, shape: SamplingShape) -> SampledTokens:
    vocabulary = logits.shape[-1]
    total = logits.logsumexp(-1, keepdim=True)
    width = min(vocabulary, max(FIRST_LOOK, int(shape.top_k.max())))
    while True:
        best, ids = logits.topk(width) if width < vocabulary else logits.sort(dim=-1, descending=True, stable=True)
        mass = (best - total).exp_().double()
        kept, enough = _keep(mass, shape)
        if width == vocabulary or bool(enough.all()):
            break
        width = vocabulary
    kept_mass = mass * kept
    place, kept_total = _invert(kept_mass.cumsum(-1), number)
    kept_logmass = kept_total.log().clamp_max_(0.0).to(logits.dtype)
    logprob = (best.gather(1, place[:, None])[:, 0] - total[:, 0] - kept_logmass).clamp_max_(0.0)
    return SampledTokens(ids.gather(1, place[:, None])[:, 0], logprob, kept_logmass)


def _keep(mass: Tensor, shape: SamplingShape) -> tuple[Tensor, Tensor]:
    """Which of the largest masses `[R, K]`, in falling order, a row keeps; and whether no smaller one could be kept."""
    width = mass.shape[-1]
    rank = torch.arange(width, device=mass.device)
    limit = torch.where(shape.top_k > 0, shape.top_k, torch.iinfo(torch.int64).max)[:, None]
    kept = rank < limit
    reach = (mass * kept).cumsum(-1)
    # Top-p counts the mass among the top-k; without a top-k it is the share of the whole.
    whole = torch.where(shape.top_k > 0, reach[:, -1], 1.0)[:, None]
    top_p = shape.top_p.double()[:, None]
    before = reach - mass * kept
    kept = kept & ((before < top_p * whole) | (top_p >= 1))
    floor = shape.min_p.double()[:, None] * mass[:, :1]
    kept = kept & (mass >= floor)
    kept[:, 0] = True
    enough = (limit[:, 0] <= width) | ((top_p < 1) & (reach[:, -1:] >= top_p))[:, 0] | (mass[:, -1:] < floor)[:, 0]
    return kept, enough
