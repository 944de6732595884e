"""From hidden states to readouts, one number per token, without the logits of a whole microbatch in memory at once.

A readout is a function of the logits [n, V] (float32, already divided by the temperature) and the tokens [n]. Logits
are computed for a piece of the tokens at a time, for all readouts together, and once more in the backward pass. A
readout of two models is a function of the logits of both, [n, V] each.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rlcore.errors import ModelError
from rlcore.math.precision import single

Readout = Callable[[Tensor, Tensor], Tensor]
VALUE = "value"
PIECE_ELEMENTS = 2**22
"""Most float32 logits of a piece (16 MiB): few enough to stay in a CPU's cache, and for malloc to use again."""
CHUNK_ELEMENTS = 2**24
"""Most gradients of logits for one product with the hidden states (32 MiB in bfloat16, 64 in float32)."""


class ValueHead(nn.Module):
    """A linear map from a hidden state to one number, in float32; starts at 0, so that a new critic's values are 0."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, hidden: Tensor) -> Tensor:
        """Return [n] from hidden states [n, H]."""
        return hidden.to(self.weight.dtype) @ self.weight + self.bias


_VALUE_FILE = "value_head.safetensors"


def save_value_head(head: ValueHead, folder: Path) -> None:
    """Write the value head into a model's folder."""
    save_file(
        {name: tensor.detach().cpu().contiguous() for name, tensor in head.state_dict().items()}, folder / _VALUE_FILE
    )


def save_as_classifier(head: ValueHead, module: Any, folder: Path) -> bool:
    """Make a model's saved folder one of a sequence classifier too, and return whether that is possible.

    It is where transformers has such a class for the model, whose own layer is one linear map without a bias, and this
    head has none. What the folder was before (a language model, with its head) it stays.
    """
    from transformers import AutoModelForSequenceClassification

    config = copy.deepcopy(module.config)
    config.num_labels = 1
    try:
        with torch.device("meta"):
            classifier = AutoModelForSequenceClassification.from_config(config)
    except (ValueError, KeyError, AttributeError):
        return False
    wanted = {name: tuple(weight.shape) for name, weight in classifier.state_dict().items()}
    body = {name: tuple(weight.shape) for name, weight in module.state_dict().items()}
    own = [name for name in wanted if body.get(name) != wanted[name]]
    if len(own) != 1 or wanted[own[0]] != (1, len(head.weight)) or bool(head.bias.detach() != 0):
        return False
    config.architectures = [type(classifier).__name__]
    config.save_pretrained(folder)
    file = min(folder.glob("model*.safetensors"))
    weights = {**load_file(file), own[0]: head.weight.detach().cpu()[None].contiguous()}
    save_file(weights, file, metadata={"format": "pt"})
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        tree = json.loads(index.read_text(encoding="utf-8"))
        tree["weight_map"][own[0]] = file.name
        index.write_text(json.dumps(tree, indent=2), encoding="utf-8")
    return True


def load_value_head(source: str, width: int) -> ValueHead:
    """Return the value head that is saved in the folder `source`, or a new one where there is none.

    Raises:
        ModelError: the saved head is of another width.
    """
    head = ValueHead(width)
    file = Path(source) / _VALUE_FILE
    if source and file.is_file():
        state = load_file(file)
        if state["weight"].shape != head.weight.shape:
            raise ModelError(f"the value head in {source!r} has width {len(state['weight'])}; the model has {width}")
        head.load_state_dict(state)
    return head


@dataclass(frozen=True)
class LogitScale:
    """What a model does to its head's product: times `scale`, then `softcap * tanh(logits / softcap)` if capped."""

    scale: float = 1.0
    softcap: float | None = None

    def __call__(self, raw: Tensor) -> Tensor:
        """Return the logits of a product of the head."""
        logits = raw if self.scale == 1.0 else self.scale * raw
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)


@dataclass(frozen=True)
class Projection:
    """How hidden states become logits: `weight` [V, H] and `bias`, computed in `dtype`, then scaled."""

    weight: Tensor
    bias: Tensor | None
    scale: LogitScale
    dtype: torch.dtype


@dataclass(frozen=True)
class ReferenceLogits:
    """The reference model at the same positions: its hidden states [n, H'], and the readouts of both models' logits.

    Only the trained model's logits have a gradient; both are divided by the same temperature. A readout of two models
    is a function of (logits, reference logits) -> [n], such as `rlcore.math.kl.full`. It costs the memory of a second
    piece of logits.
    """

    projection: Projection
    hidden: Tensor
    readouts: Mapping[str, Callable[[Tensor, Tensor], Tensor]]


def read_logits(
    projection: Projection,
    hidden: Tensor,
    token: Tensor,
    readouts: Mapping[str, Readout],
    *,
    temperature: float,
    watched: Sequence[str] = (),
    reference: ReferenceLogits | None = None,
    piece_elements: int = PIECE_ELEMENTS,
    chunk_elements: int = CHUNK_ELEMENTS,
) -> dict[str, Tensor]:
    """Return each readout [n] for tokens [n] that follow the hidden states [n, H], and each of two models.

    Differentiable by the states and the projection, except readouts in `watched`; once only.

    Raises:
        ModelError: the temperature is not above 0: such a distribution has no log-probabilities to train on; or the
            reference model has another vocabulary or other positions.
    """
    if not temperature > 0:
        raise ModelError(f"temperature {temperature} cannot be trained at; it must be above 0")
    vocabulary = len(projection.weight)
    if reference is not None:
        reference = _prepared(reference, vocabulary, len(hidden))
    piece = max(1, piece_elements // vocabulary)
    sizes = (piece, max(1, chunk_elements // vocabulary // piece) * piece)
    plan = _Pass(readouts, tuple(watched), temperature, projection.scale, projection.dtype, sizes, reference)
    values = _Head.apply(hidden, projection.weight, projection.bias, token, plan)
    return {name: value.detach() if name in watched else value for name, value in zip(plan.names, values, strict=True)}


def _prepared(reference: ReferenceLogits, vocabulary: int, positions: int) -> ReferenceLogits:
    """Return the reference checked, without a gradient and converted to the type of its product, for all pieces."""
    projection = reference.projection
    if len(projection.weight) != vocabulary or len(reference.hidden) != positions:
        raise ModelError(
            f"the reference model has {len(projection.weight)} tokens in its vocabulary and {len(reference.hidden)} "
            f"positions; a readout of two models needs the policy's own: {vocabulary} and {positions}"
        )
    weight, bias = projection.weight.detach().to(projection.dtype), projection.bias
    added = None if bias is None else bias.detach().to(projection.dtype)
    prepared = replace(projection, weight=weight, bias=added)
    return replace(reference, projection=prepared, hidden=reference.hidden.detach().to(projection.dtype))


@dataclass(frozen=True)
class _Pass:
    """What the forward and the backward pass of one call share; `sizes` are the tokens of a piece and of a chunk."""

    readouts: Mapping[str, Readout]
    watched: tuple[str, ...]
    temperature: float
    scale: LogitScale
    dtype: torch.dtype
    sizes: tuple[int, int]
    reference: ReferenceLogits | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all readouts, those of two models last."""
        return (*self.readouts, *(self.reference.readouts if self.reference is not None else ()))

    def read(self, raw: Tensor, token: Tensor, names: Sequence[str], first: int) -> list[Tensor]:
        """Return readouts [n] of raw logits [n, V], which begin at position `first`."""
        scores = self._scores(raw, self.scale)
        values = [self.readouts[name](scores, token) for name in names if name in self.readouts]
        of_two = [name for name in names if name not in self.readouts]
        if self.reference is not None and of_two:
            other = self.reference.projection
            states = self.reference.hidden[first : first + len(raw)]
            reference_scores = self._scores(F.linear(states, other.weight, other.bias), other.scale)
            values += [self.reference.readouts[name](scores, reference_scores) for name in of_two]
        return values

    def _scores(self, raw: Tensor, scale: LogitScale) -> Tensor:
        scores = scale(single(raw))
        return scores if self.temperature == 1.0 else scores / self.temperature


class _Head(torch.autograd.Function):
    """All readouts, piece by piece; the backward pass computes each piece's logits again."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, token: Tensor, plan: _Pass
    ) -> tuple[Tensor, ...]:
        states, matrix = hidden.to(plan.dtype), weight.to(plan.dtype)
        added = None if bias is None else bias.to(plan.dtype)
        pieces: list[list[Tensor]] = []
        for first in range(0, max(len(states), 1), plan.sizes[0]):
            piece = slice(first, first + plan.sizes[0])
            pieces.append(plan.read(F.linear(states[piece], matrix, added), token[piece], plan.names, first))
        ctx.save_for_backward(states, matrix, added, token)
        ctx.plan = plan
        ctx.types = (hidden.dtype, weight.dtype, None if bias is None else bias.dtype)
        return tuple(torch.cat(values) for values in zip(*pieces, strict=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        states, matrix, added, token = ctx.saved_tensors
        plan: _Pass = ctx.plan
        of_states = torch.empty_like(states)
        of_weight: Tensor | None = None
        of_bias: Tensor | None = None
        for first in range(0, len(states), plan.sizes[1]):
            chunk = slice(first, first + plan.sizes[1])
            of_logits = _logit_gradients(
                plan, states[chunk], matrix, added, token[chunk], [g[chunk] for g in gradients], first
            )
            torch.mm(of_logits, matrix, out=of_states[chunk])
            if ctx.needs_input_grad[1]:
                share = of_logits.t() @ states[chunk]
                # Summed in the weight's own type: a sum of bfloat16 shares would lose small ones.
                of_weight = share.to(ctx.types[1]) if of_weight is None else of_weight.add_(share)
            if added is not None and ctx.needs_input_grad[2]:
                summed = of_logits.sum(0, dtype=ctx.types[2])
                of_bias = summed if of_bias is None else of_bias + summed
        return of_states.to(ctx.types[0]), of_weight, of_bias, None, None


def _logit_gradients(
    plan: _Pass,
    states: Tensor,
    matrix: Tensor,
    added: Tensor | None,
    token: Tensor,
    gradients: Sequence[Tensor],
    begin: int,
) -> Tensor:
    """Return the gradient [n, V] of the raw logits of a chunk that begins at position `begin`."""
    names = [name for name in plan.names if name not in plan.watched]
    kept = [gradient for name, gradient in zip(plan.names, gradients, strict=True) if name not in plan.watched]
    gradient_of_logits = states.new_empty(len(states), len(matrix))
    for first in range(0, len(states), plan.sizes[0]):
        piece = slice(first, first + plan.sizes[0])
        raw = F.linear(states[piece], matrix, added).requires_grad_()
        with torch.enable_grad():
            values = plan.read(raw, token[piece], names, begin + first)
        gradient_of_logits[piece] = torch.autograd.grad(values, raw, [gradient[piece] for gradient in kept])[0]
    return gradient_of_logits
