"""One step of a model, over prompts or over one new token per row: through its own modules, or fused.

The fused step is for plain Llama-like layers, which a small copy proves. It computes the same from the same parameters
with a third of the tensor operations. Its matrices are cast and laid out for the processor once, for the time of one
call of the sampler: nothing outlives the call.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlcore.errors import ModelError
from rlcore.sample.cache import DecodeLayout, ExtendLayout, PrefillLayout, SlotCache
from rlcore.train.attention import AttentionLayout, ScoreOptions
from rlcore.train.model import LanguageModel, Precision, pack
from rlcore.train.proof import TOLERANCE, Proof, small_key
from rlcore.train.small_copy import small_config, small_copy


class Decoder(Protocol):
    """Runs tokens end to end; the layout says what they attend to."""

    def step(self, tokens: Tensor, position: Tensor, layout: AttentionLayout) -> Tensor:
        """Return final hidden states `[N, H]` of tokens `[N]` at their positions `[N]`."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits `[n, V]` in float32."""
        ...


def decoder_for(model: LanguageModel, precision: Precision) -> Decoder:
    """Return the fused decoder where that is right, else the model's own modules."""
    if decoding_of(model) == "fused" and _has_bare_projections(model):
        return FusedDecoder(model, precision)
    return ModuleDecoder(model, precision)


Decoding = Literal["fused", "modules", "whole rows"]
_decodings: dict[str, Decoding] = {}


def decoding_of(model: LanguageModel) -> Decoding:
    """Return how tokens are drawn from a model, as its small copy proves.

    "fused" and "modules" keep keys and values; "whole rows" computes each row anew for each token, which is right for
    every model that the trainer runs right.
    """
    key = small_key(model.module.config)
    if key not in _decodings:
        _decodings[key] = _prove_decoding(model)
    return _decodings[key]


def _prove_decoding(model: LanguageModel) -> Decoding:
    if model.proof.way != "packed" or model.takes_inputs:
        return "whole rows"
    small = LanguageModel(small_copy(small_config(model.module.config)), None, proof=Proof("packed", None, None))
    first = torch.arange(SEEN) % (small.vocab_size - 8) + 3
    # Two rows, which begin alike.
    tokens = torch.stack([first, torch.cat([first[:PROMPT], first[PROMPT:].flip(0)])])
    expected = small.logits(small.hidden(pack(tokens.flatten(), torch.tensor([SEEN, SEEN]))))
    expected = expected.view(2, SEEN, -1)[:, PROMPT - 1 :]
    for name, decoder in (("fused", FusedDecoder), ("modules", ModuleDecoder)):
        try:
            found = _decoded(decoder(small, "float32"), tokens)
        except (AttributeError, TypeError, RuntimeError, ValueError, IndexError, ModelError):
            continue  # modules that this decoder does not know
        if found.shape == expected.shape and bool((found - expected).abs().max() < TOLERANCE * expected.abs().max()):
            return name  # type: ignore[return-value]
    return "whole rows"


PROMPT, TURN, SEEN = 7, 11, 40
"""Tokens of the prompt, of a turn that is added to it at once, and in all, with which decoding is proven."""


def _decoded(decoder: Decoder, tokens: Tensor) -> Tensor:
    """Return for both rows the logits after the prompt and after each token that follows, from kept keys and values."""
    cache = SlotCache()
    cache.fit(2, SEEN)
    cache.reserve(SEEN)
    packed = pack(tokens[0, :PROMPT], torch.tensor([PROMPT]))
    layout = PrefillLayout(packed.row_index, packed.query_index, cache, 0, torch.tensor([0, 0]))
    states = [decoder.step(packed.tokens, packed.position, layout)[-1:].expand(2, 1, -1)]
    # As a session's next turn does: several tokens at once.
    turn = ExtendLayout(cache, 0, torch.tensor([PROMPT] * 2), torch.tensor([TURN] * 2))
    added = decoder.step(tokens[:, PROMPT : PROMPT + TURN].flatten(), turn.place, turn)
    states.append(added.view(2, TURN, -1))
    for place in range(PROMPT + TURN, SEEN):
        at = torch.tensor([place, place])
        states.append(decoder.step(tokens[:, place], at, DecodeLayout(cache, at, place + 1))[:, None])
    return decoder.logits(torch.cat(states, 1))


class ModuleDecoder:
    """The model's own modules, under autocast where bfloat16 is asked for."""

    def __init__(self, model: LanguageModel, precision: Precision) -> None:
        self._model, self._precision = model, precision

    def step(self, tokens: Tensor, position: Tensor, layout: AttentionLayout) -> Tensor:
        """Return final hidden states `[N, H]`."""
        with self._model.autocast(self._precision):
            return self._model.run(tokens, position, layout)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits `[n, V]` in float32."""
        with self._model.autocast(self._precision):
            return self._model.logits(hidden)


def _has_bare_projections(model: LanguageModel) -> bool:
    """Whether every projection is a bare `nn.Linear`: an adapter around one has a forward pass of its own."""
    of_attention, of_mlp = ("q_proj", "k_proj", "v_proj", "o_proj"), ("gate_proj", "up_proj", "down_proj")
    parts = [getattr(layer.self_attn, name) for layer in model.body.layers for name in of_attention]
    parts += [getattr(layer.mlp, name) for layer in model.body.layers for name in of_mlp]
    return all(type(part) is nn.Linear for part in (*parts, model.head))


class _Projection:
    """Some linear layers of one input, their outputs side by side.

    On CPUs the matrix is laid out anew for oneDNN once, where it would otherwise be at each step: with 16 rows that is
    half of a product's time.
    """

    def __init__(self, layers: list[nn.Linear], dtype: torch.dtype) -> None:
        weights = [x.weight.detach() for x in layers]
        self._dtype = dtype
        self._bias = None
        if any(x.bias is not None for x in layers):
            biases = [x.weight.new_zeros(x.out_features) if x.bias is None else x.bias.detach() for x in layers]
            self._bias = torch.cat(biases).to(dtype)
        self._weight = torch.cat([x.to(dtype) for x in weights]) if len(weights) > 1 else weights[0].to(dtype)
        self._packed = _can_pack(self._weight)
        if self._packed:
            # Private, but what torch's own compiler emits; `_can_pack` sees that it is there.
            self._weight = torch.ops.mkldnn._reorder_linear_weight(self._weight, None)  # noqa: SLF001

    def __call__(self, x: Tensor) -> Tensor:
        x = x.to(self._dtype)
        if self._packed:
            return torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")  # noqa: SLF001
        return F.linear(x, self._weight, self._bias)


def _can_pack(weight: Tensor) -> bool:
    ops = torch.ops.mkldnn
    present = torch.backends.mkldnn.is_available() and hasattr(ops, "_reorder_linear_weight")
    if weight.device.type != "cpu" or not present:
        return False
    in_bfloat16 = weight.dtype == torch.bfloat16 and ops._is_mkldnn_bf16_supported()  # noqa: SLF001
    return weight.dtype == torch.float32 or in_bfloat16


class _Layer(NamedTuple):
    norm: nn.Module
    qkv: _Projection
    # Weights of the norms of query and key heads `[query heads + key heads, width]`, where the family has them.
    head_norm: Tensor | None
    out: _Projection
    mlp_norm: nn.Module
    gate_up: _Projection
    activation: nn.Module
    down: _Projection
    scores: ScoreOptions


class FusedDecoder:
    """A step of pre-norm, grouped-query, gated-MLP layers; residuals, norms and rotation stay in float32."""

    def __init__(self, model: LanguageModel, precision: Precision) -> None:
        self._scale = model.scale
        self._body = model.body
        own = model.head.weight.dtype
        dtype = torch.bfloat16 if precision == "bfloat16" else own
        config = model.config
        self._heads, self._held = int(config.num_attention_heads), int(config.num_key_value_heads)
        self._head = _Projection([model.head], dtype)
        self._layers = [self._layer(layer, dtype) for layer in self._body.layers]

    def _layer(self, layer: Any, dtype: torch.dtype) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        head_norm = None
        if hasattr(attention, "q_norm"):
            q, k = attention.q_norm.weight.detach(), attention.k_norm.weight.detach()
            head_norm = torch.cat([q.expand(self._heads, -1), k.expand(self._held, -1)])
        return _Layer(
            norm=layer.input_layernorm,
            qkv=_Projection([attention.q_proj, attention.k_proj, attention.v_proj], dtype),
            head_norm=head_norm,
            out=_Projection([attention.o_proj], dtype),
            mlp_norm=layer.post_attention_layernorm,
            gate_up=_Projection([mlp.gate_proj, mlp.up_proj], dtype),
            activation=mlp.act_fn,
            down=_Projection([mlp.down_proj], dtype),
            scores=ScoreOptions(float(attention.scaling), window=getattr(attention, "sliding_window", None)),
        )

    def step(self, tokens: Tensor, position: Tensor, layout: AttentionLayout) -> Tensor:
        """Return final hidden states `[N, H]`."""
        x = self._body.embed_tokens(tokens)
        cos, sin = self._body.rotary_emb(x[None], position[None])
        # Both halves of a head turn by the same angles.
        half = cos.shape[-1] // 2
        cos, sin = cos[0, :, None, :half], sin[0, :, None, :half]
        for index, layer in enumerate(self._layers):
            x += self._attention(index, layer, _norm(layer.norm, x), cos, sin, layout)
            gate, up = layer.gate_up(_norm(layer.mlp_norm, x)).chunk(2, -1)
            x += layer.down(layer.activation(gate).mul_(up))
        return _norm(self._body.norm, x)

    def _attention(
        self, index: int, layer: _Layer, x: Tensor, cos: Tensor, sin: Tensor, layout: AttentionLayout
    ) -> Tensor:
        turned = self._heads + self._held
        qkv = layer.qkv(x).view(len(x), turned + self._held, -1)
        qk = qkv[:, :turned].to(cos.dtype)
        if layer.head_norm is not None:
            eps = self._body.layers[index].self_attn.q_norm.variance_epsilon
            qk = _scaled(qk, eps).mul_(layer.head_norm)
        half = cos.shape[-1]
        a, b = qk[..., :half], qk[..., half:]
        out = torch.empty(qk.shape, dtype=qk.dtype, device=qk.device)
        torch.mul(a, cos, out=out[..., :half]).addcmul_(b, sin, value=-1)
        torch.mul(b, cos, out=out[..., half:]).addcmul_(a, sin)
        query, key, value = out[:, : self._heads], out[:, self._heads :], qkv[:, turned:]
        attended = layout.attend(index, query, key, value, layer.scores)
        return layer.out(attended.reshape(len(x), -1))

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits `[n, V]` in float32."""
        return self._scale(self._head(hidden).float())


def _norm(module: Any, x: Tensor) -> Tensor:
    return _scaled(x, module.variance_epsilon).mul_(module.weight)


def _scaled(x: Tensor, eps: float) -> Tensor:
    """`x` over its root mean square: three operations on CPUs, where `F.rms_norm` makes ten."""
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x * norm.square_().mul_(1.0 / x.shape[-1]).add_(eps).rsqrt_()
