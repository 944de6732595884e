"""From hidden states to one number per token, in chunks: the logits of a whole microbatch never exist at once.

A readout is a function of the logits [n, V] (float32, already divided by the temperature) and the tokens [n]. All
readouts of a pass come from the same chunk, whose logits are dropped and computed once more in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rlcore.errors import ModelError

Readout = Callable[[Tensor, Tensor], Tensor]
Logits = Callable[[Tensor], Tensor]
VALUE = "value"
CHUNK_ELEMENTS = 2**24
"""Most logits alive at once (64 MiB in float32): 201 positions of an 83,000-token vocabulary, 341 of 49,152."""


class ValueHead(nn.Module):
    """A linear map from a hidden state to one number, in float32; starts at 0, so that a fresh critic says 0."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, hidden: Tensor) -> Tensor:
        """Return [n] from hidden states [n, H]."""
        return hidden.to(self.weight.dtype) @ self.weight + self.bias


_VALUE_FILE = "value_head.safetensors"


def save_value_head(head: ValueHead, folder: Path) -> None:
    """Write the head into a model's folder."""
    save_file(
        {name: tensor.detach().cpu().contiguous() for name, tensor in head.state_dict().items()}, folder / _VALUE_FILE
    )


def load_value_head(source: str, width: int) -> ValueHead:
    """Return the head that lies in the folder `source`, or a fresh one where there is none.

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


def read_logits(
    logits: Logits,
    hidden: Tensor,
    token: Tensor,
    readouts: Mapping[str, Readout],
    *,
    temperature: float,
    vocabulary: int,
    watched: Sequence[str] = (),
    chunk_elements: int = CHUNK_ELEMENTS,
) -> dict[str, Tensor]:
    """Return each readout [n] for tokens [n] that follow the hidden states [n, H].

    Those in `watched` are computed without gradient. With gradients enabled and more than one chunk, each chunk is
    computed again in the backward pass.

    Raises:
        ModelError: the temperature is not above 0: such a distribution has no log-probabilities to train on.
    """
    if not temperature > 0:
        raise ModelError(f"temperature {temperature} cannot be trained at; it must be above 0")
    names = tuple(readouts)

    def one_chunk(states: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
        scores = logits(states)
        if temperature != 1.0:
            scores = scores / temperature
        detached = scores.detach()
        return tuple(readouts[name](detached if name in watched else scores, tokens) for name in names)

    size = max(1, chunk_elements // vocabulary)
    if len(token) <= size:
        return dict(zip(names, one_chunk(hidden, token), strict=True))
    parts = []
    for states, tokens in zip(hidden.split(size), token.split(size), strict=True):
        if torch.is_grad_enabled():
            parts.append(checkpoint(one_chunk, states, tokens, use_reentrant=False, preserve_rng_state=False))
        else:
            parts.append(one_chunk(states, tokens))
    return {name: torch.cat(values) for name, values in zip(names, zip(*parts, strict=True), strict=True)}
