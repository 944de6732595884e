"""One decoding step of a model: through its own modules, or fused for the plain Llama-like families.

The fused step computes the same from the same parameters with a third of the tensor operations. In float32 it reads
the trainer's parameters where they lie; in bfloat16 it casts the matrices once, for the time of one call of the sampler.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlcore.train.attention import Plan
from rlcore.train.model import LanguageModel, Precision


class Decoder(Protocol):
    """Runs one token per row."""

    def step(self, tokens: Tensor, position: Tensor, plan: Plan) -> Tensor:
        """Return final hidden states `[R, H]` of tokens `[R]` at their positions `[R]`."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits `[R, V]` in float32."""
        ...


def decoder_for(model: LanguageModel, precision: Precision) -> Decoder:
    """Return the fused decoder where the model is what it expects, else the model's own modules."""
    return FusedDecoder(model, precision) if _is_plain(model) else ModuleDecoder(model)


class ModuleDecoder:
    """The model's own modules; call it under `LanguageModel.autocast`."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    def step(self, tokens: Tensor, position: Tensor, plan: Plan) -> Tensor:
        """Return final hidden states `[R, H]`."""
        return self._model.run(tokens, position, plan)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits `[R, V]` in float32."""
        return self._model.logits(hidden)


def _is_plain(model: LanguageModel) -> bool:
    """Whether every projection is a bare `nn.Linear`: an adapter around one has a forward pass of its own."""
    if not model.family.llama_like:
        return False
    layers = getattr(model.module, model.module.base_model_prefix).layers
    names = ("q_proj", "k_proj", "v_proj", "o_proj"), ("gate_proj", "up_proj", "down_proj")
    parts = [getattr(part, name) for x in layers for part, of in zip((x.self_attn, x.mlp), names, strict=True) for name in of]
    return all(type(part) is nn.Linear for part in (*parts, model.head))


class _Projection:
    """Some linear layers of one input, their outputs side by side."""

    def __init__(self, layers: list[nn.Linear], dtype: torch.dtype) -> None:
        pairs = [(x.weight.detach(), None if x.bias is None else x.bias.detach()) for x in layers]
        self.dtype = dtype
        if any(weight.dtype != dtype for weight, _ in pairs):
            biases = [weight.new_zeros(len(weight)) if bias is None else bias for weight, bias in pairs]
            bias = None if all(b is None for _, b in pairs) else torch.cat(biases).to(dtype)
            pairs = [(torch.cat([weight.to(dtype) for weight, _ in pairs]), bias)]
        self._pairs = pairs

    def __call__(self, x: Tensor) -> Tensor:
        x = x.to(self.dtype)
        parts = [F.linear(x, weight, bias) for weight, bias in self._pairs]
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


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
    scale: float
    window: int | None


class FusedDecoder:
    """A decoding step of pre-norm, grouped-query, gated-MLP layers; residuals, norms and rotation stay in float32."""

    def __init__(self, model: LanguageModel, precision: Precision) -> None:
        self._softcap = model.softcap
        self._body = getattr(model.module, model.module.base_model_prefix)
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
            scale=float(attention.scaling),
            window=getattr(attention, "sliding_window", None),
        )

    def step(self, tokens: Tensor, position: Tensor, plan: Plan) -> Tensor:
        """Return final hidden states `[R, H]`."""
        x = self._body.embed_tokens(tokens)
        cos, sin = self._body.rotary_emb(x[None], position[None])
        # Both halves of a head turn by the same angles.
        half = cos.shape[-1] // 2
        cos, sin = cos[0, :, None, :half], sin[0, :, None, :half]
        for index, layer in enumerate(self._layers):
            x = x + self._attention(index, layer, _norm(layer.norm, x), cos, sin, plan)
            gate, up = layer.gate_up(_norm(layer.mlp_norm, x)).chunk(2, -1)
            x = x + layer.down(layer.activation(gate) * up)
        return _norm(self._body.norm, x)

    def _attention(self, index: int, layer: _Layer, x: Tensor, cos: Tensor, sin: Tensor, plan: Plan) -> Tensor:
        turned = self._heads + self._held
        qkv = layer.qkv(x).view(len(x), turned + self._held, -1)
        qk = qkv[:, :turned].to(cos.dtype)
        if layer.head_norm is not None:
            eps = self._body.layers[index].self_attn.q_norm.variance_epsilon
            qk = F.rms_norm(qk, qk.shape[-1:], None, eps) * layer.head_norm
        half = cos.shape[-1]
        a, b = qk[..., :half], qk[..., half:]
        out = torch.empty(qk.shape, dtype=qk.dtype, device=qk.device)
        torch.mul(a, cos, out=out[..., :half]).addcmul_(b, sin, value=-1)
        torch.mul(b, cos, out=out[..., half:]).addcmul_(a, sin)
        attended = plan.attend(
            index,
            out[:, : self._heads],
            out[:, self._heads :],
            qkv[:, turned:],
            scale=layer.scale,
            softcap=None,
            window=layer.window,
        )
        return layer.out(attended.reshape(len(x), -1))

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits `[R, V]` in float32."""
        logits = self._head(hidden).float()
        return logits if self._softcap is None else self._softcap * torch.tanh(logits / self._softcap)


def _norm(module: Any, x: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], module.weight, module.variance_epsilon)
