"""Forward passes: readouts of the current weights (log-probability, entropy, value, ...) at the tokens of some rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from rlcore.batch import Batch
from rlcore.errors import DataError, unknown
from rlcore.math.kl import forward_top, full
from rlcore.train.head import VALUE, Projection, Readout, ReferenceLogits, ValueHead, read_logits
from rlcore.train.model import LanguageModel, Precision, pack

REFERENCE_READOUTS = {"full_kl": full, "forward_kl": forward_top}
"""Readouts of two models' logits; a forward pass has them where it has a reference model.

`forward_kl_top_N` is the second over N tokens, whatever the number.
"""
_TOP = re.compile(r"forward_kl_top_([1-9]\d*)")


def reference_readout(name: str) -> Callable[..., Tensor] | None:
    """Return the readout of two models of a name; None for a name of none."""
    if match := _TOP.fullmatch(name):
        return partial(forward_top, top=int(match.group(1)))
    return REFERENCE_READOUTS.get(name)


@dataclass(frozen=True)
class ForwardPass:
    """A model with its head, and how it is run.

    Attributes:
        value_head: gives the readout "value" in place of those that are made of logits; None for a policy.
        readouts: functions of (logits, tokens) by name.
        share_prompts: the rows of a group compute their common prompt once.
        reference: a second model, never trained, for readouts that compare two. It is run over the same tokens in the
            same microbatch, so that no logits are kept for it.
    """

    model: LanguageModel
    value_head: ValueHead | None
    readouts: Mapping[str, Readout]
    precision: Precision
    share_prompts: bool
    reference: LanguageModel | None = None

    @property
    def device(self) -> torch.device:
        """Return the device of the model."""
        return self.model.device

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the readouts that it can compute."""
        if self.value_head is not None:
            return frozenset((VALUE,))
        return frozenset((*self.readouts, *(REFERENCE_READOUTS if self.reference is not None else ())))

    def check(self, wanted: Sequence[str]) -> None:
        """Raise UnknownNameError for a readout that this head does not have."""
        for name in wanted:
            of_two = self.reference is not None and reference_readout(name) is not None
            if name not in self.names and not of_two:
                raise unknown("readout of this trainer", name, self.names)

    def read(
        self,
        rows: Batch,
        on: Tensor,
        wanted: Sequence[str],
        *,
        temperature: float,
        watched: Sequence[str] = (),
        shift: int = 1,
    ) -> dict[str, Tensor]:
        """Return each wanted readout for the n tokens where `on` [N] is set, [n], in the order of the batch.

        The readout of a token is computed from the hidden state before it (`shift=1`), or with `shift=0` from its own,
        as for a value after the last token. Differentiable where gradients are enabled, except readouts in `watched`.

        Raises:
            DataError: `on` is set at a row's first token, which has no state before it.
        """
        self.check(wanted)
        index = on.nonzero().flatten()
        if shift:
            check_not_first(rows, on)
        sharing = self.share_prompts and "group" in rows and "prompt_length" in rows
        packed = pack(
            rows.flat("tokens"),
            rows.length,
            prompt_length=rows["prompt_length"] if sharing else None,
            group=rows["group"] if sharing else None,
        )
        inputs = (rows["model_inputs"],) if "model_inputs" in rows.names else ()
        device = self.model.device
        place = packed.flat_index[index - shift].to(device)
        token = rows.flat("tokens")[index].to(device)
        packed = packed.to(device)
        with self.model.autocast(self.precision):
            hidden = self.model.hidden(packed, *inputs).index_select(0, place)
        if self.value_head is not None:
            value = self.value_head(hidden)
            return {name: value.detach() if name in watched else value for name in wanted}
        of_two = {name: found for name in wanted if name not in self.readouts and (found := reference_readout(name))}
        reference = None
        if self.reference is not None and of_two:
            with torch.no_grad(), self.reference.autocast(self.precision):
                reference_hidden = self.reference.hidden(packed, *inputs).index_select(0, place)
            reference = ReferenceLogits(self._projection(self.reference), reference_hidden, of_two)
        return read_logits(
            self._projection(self.model),
            hidden,
            token,
            {name: self.readouts[name] for name in wanted if name in self.readouts},
            temperature=temperature,
            watched=watched,
            reference=reference,
        )

    def _projection(self, model: LanguageModel) -> Projection:
        head = model.head
        dtype = torch.bfloat16 if self.precision == "bfloat16" else head.weight.dtype
        return Projection(head.weight, head.bias, model.scale, dtype)


def check_not_first(rows: Batch, on: Tensor) -> None:
    """Raise DataError if `on` [N] holds the first token of a row."""
    first = rows.length.cumsum(0) - rows.length
    bad = on[first[rows.length > 0]].nonzero().flatten()
    if len(bad):
        raise DataError(
            f"row {int(bad[0])} of {len(rows)}: its first token is marked as sampled; nothing stands before it, so no "
            "model has a probability for it. Rows begin with a prompt or a start token."
        )


@torch.no_grad()
def read_rows(
    forward: ForwardPass,
    batch: Batch,
    on: Tensor,
    wanted: Sequence[str],
    *,
    temperature: float,
    parts: Sequence[Tensor],
    shift: int = 1,
) -> dict[str, Tensor]:
    """Return each wanted readout for all tokens of the batch, [N] on the CPU, 0 where `on` is off, without gradient.

    `parts` are the row indices of the microbatches; rows that are in none of them get 0.
    """
    start = batch.length.cumsum(0) - batch.length
    readings = {name: torch.zeros(batch.tokens_total) for name in wanted}
    for rows in parts:
        part = batch.take(rows)
        place = start[rows][part.row_of_token] + part.place_of_token
        part_on = on[place]
        values = forward.read(part, part_on, wanted, temperature=temperature, shift=shift)
        for name, value in values.items():
            readings[name] = readings[name].to(value.dtype).index_copy(0, place[part_on], value.cpu())
    return readings
