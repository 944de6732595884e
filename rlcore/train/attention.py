"""Attention over packed rows, registered with transformers under the name "rlcore".

The modules of a model are given the tokens of all rows as one sequence `[1, N, ...]` without padding. An attention
layout, a keyword argument of the forward pass, knows which token belongs to which row. No `[T, T]` mask is made unless
a layer needs one.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from rlcore.errors import ModelError

NAME = "rlcore"

SHORT = 256
"""Up to this many tokens a row's scores are computed one by one in bfloat16 on CPUs: the backward pass of torch's fused
kernel costs up to four times as much there (with forward, 128 rows of 24 tokens: 35 ms a layer against 8)."""


class ScoreOptions(NamedTuple):
    """A layer's options: scale of the scores, bound of a soft cap on them, tokens that a token sees; None: no bound."""

    scale: float
    softcap: float | None = None
    window: int | None = None


class AttentionLayout(Protocol):
    """Computes attention: it knows which tokens see which, and where keys and values are kept."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scores: ScoreOptions) -> Tensor:
        """Return `[N, heads, value width]` from query `[N, heads, width]` and key and value `[N, key heads, ...]`."""
        ...


def register() -> None:
    """Make `attn_implementation="rlcore"` known to transformers; calling it again changes nothing."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attention)


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _mask: Tensor | None = None,
    *,
    scaling: float,
    softcap: float | None = None,
    sliding_window: int | None = None,
    layout: AttentionLayout | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    if layout is None:
        raise ModelError(
            "this model was called without a layout of its rows; use LanguageModel.hidden, "
            "or set_attn_implementation('sdpa') to call the module itself"
        )
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    out = layout.attend(module.layer_idx, q, k, v, ScoreOptions(scaling, softcap, sliding_window))
    # Some modules take a view of it.
    return out.unsqueeze(0).contiguous(), None


def causal_attention(
    query: Tensor, key: Tensor, value: Tensor, *, scale: float, softcap: float | None = None, window: int | None = None
) -> Tensor:
    """Return `[B, heads, T, value width]`: each token attends to itself and those before it in its row.

    `query` is `[B, heads, T, width]`; `key` and `value` have as many heads or a divisor of them. `window` bounds how
    far back a token looks (its own place counts); `softcap` bounds the scores to `cap * tanh(score / cap)`. A `[T, T]`
    mask is made only with a soft cap, or with a window shorter than T.
    """
    time = query.shape[2]
    if softcap is None and (window is None or time <= window):
        if time <= SHORT and value.dtype == torch.bfloat16 and query.device.type == "cpu":
            return _ShortCausal.apply(query, key, value, scale)
        return _flash(query, key, value, scale=scale)
    places = torch.arange(time, device=query.device)
    distance = places[:, None] - places
    seen = (distance >= 0) if window is None else (distance >= 0) & (distance < window)
    return masked_attention(query, key, value, seen, scale=scale, softcap=softcap)


def masked_attention(
    query: Tensor, key: Tensor, value: Tensor, seen: Tensor, *, scale: float, softcap: float | None = None
) -> Tensor:
    """Return attention under a boolean mask that broadcasts to `[B, heads, T, S]`; scores are computed in float32."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = (query @ key.transpose(2, 3)).float() * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
    return weights.to(value.dtype) @ value


class _ShortCausal(torch.autograd.Function):
    """Causal attention of short rows that computes all scores, in float32 (float64 stays).

    Every other product is in the type of `value`, as under autocast.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        batch, heads, time, _ = query.shape
        key_heads = key.shape[1]
        inner, outer = torch.promote_types(query.dtype, torch.float32), value.dtype
        with torch.autocast(query.device.type, enabled=False):
            # The query heads of one key head lie end to end as if they were more queries: no key is repeated.
            q = rearrange(query, "b (held group) t width -> (b held) (group t) width", held=key_heads)
            k, v = (rearrange(x, "b held t width -> (b held) t width") for x in (key, value))
            later = torch.full((time, time), float("-inf"), dtype=inner, device=q.device).triu_(1)
            later = later.repeat(heads // key_heads, 1)
            weights = torch.baddbmm(later, q.to(inner), k.to(inner).transpose(1, 2), alpha=scale).softmax(-1).to(outer)
            out = rearrange(
                torch.bmm(weights, v), "(b held) (group t) width -> b (held group) t width", b=batch, t=time
            )
        ctx.save_for_backward(q.to(outer), k.to(outer), v, weights)
        ctx.types, ctx.scale = (query.dtype, key.dtype), scale
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, weights = ctx.saved_tensors
        batch, _, time, _ = grad.shape
        key_heads = len(k) // batch
        with torch.autocast(grad.device.type, enabled=False):
            g = rearrange(grad, "b (held group) t width -> (b held) (group t) width", held=key_heads)
            grad_v = torch.bmm(weights.transpose(1, 2), g)
            grad_weights = torch.bmm(g, v.transpose(1, 2))
            backward = torch.ops.aten._softmax_backward_data  # noqa: SLF001
            grad_scores = backward(grad_weights, weights, -1, weights.dtype)
            grad_q = torch.bmm(grad_scores, k).to(ctx.types[0]).mul_(ctx.scale)
            grad_k = torch.bmm(grad_scores.transpose(1, 2), q).to(ctx.types[1]).mul_(ctx.scale)
        grad_q = rearrange(grad_q, "(b held) (group t) width -> b (held group) t width", b=batch, t=time)
        grad_k, grad_v = (rearrange(x, "(b held) t width -> b held t width", b=batch) for x in (grad_k, grad_v))
        return grad_q, grad_k, grad_v, None


def _flash(query: Tensor, key: Tensor, value: Tensor, *, scale: float) -> Tensor:
    width = value.shape[-1]
    # Norms and rotation leave queries and keys in float32 where values are bfloat16.
    query, key = query.to(value.dtype), key.to(value.dtype)
    if width < query.shape[-1]:
        # The fused kernels want one width; without it torch falls back to a kernel that makes the [T, T] scores.
        value = F.pad(value, (0, query.shape[-1] - width))
    grouped = query.shape[1] != key.shape[1]
    out = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale, enable_gqa=grouped)
    return out[..., :width]


class PackedLayout:
    """Attention within each row of a packed sequence. Rows are padded to `[B, T]` here and nowhere else."""

    def __init__(self, row_index: Tensor, query_index: Tensor) -> None:
        self.rows, self.time = row_index.shape
        self.row_index = row_index.flatten()
        self.query_index = query_index
        grid = torch.arange(self.rows * self.time, device=row_index.device)
        self.dense = len(query_index) == len(grid) and bool((query_index == grid).all())

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scores: ScoreOptions) -> Tensor:
        """Return attention `[N, heads, value width]`; see `AttentionLayout`."""
        q, k, v = (self._pad(x) for x in (query, key, value))
        out = causal_attention(q, k, v, **scores._asdict())
        out = rearrange(out, "rows heads t width -> (rows t) heads width")
        return out if self.dense else out.index_select(0, self.query_index)

    def _pad(self, flat: Tensor) -> Tensor:
        grid = flat if self.dense else flat.index_select(0, self.row_index)
        return rearrange(grid, "(rows t) heads width -> rows heads t width", rows=self.rows)
