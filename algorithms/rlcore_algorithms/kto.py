"""KTO: Kahneman-Tversky optimization (Ethayarajh et al. 2024, arXiv:2402.01306, equation 8).

    r    = log-ratio of an answer to the reference
    z    = max(0, mean r of each prompt with the answer of the row before it in the step)
    loss = w (1 - sigmoid(beta (r - z)))   where the answer is desirable, else w (1 - sigmoid(beta (z - r)))

A row of the data has `prompt`, `completion` and `label`: whether the answer is desirable. What differs from the
paper: z is measured once, with the weights that a step begins with, also where a step has several optimizer updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.columns import NONE, ROW, Column
from rlcore.component import bind
from rlcore.data import Row, RowEncoder, TokenRow
from rlcore.errors import DataError
from rlcore.graph import Node
from rlcore.math import masked_sum, single
from rlcore.offline import OfflineAlgorithm, check_columns
from rlcore_algorithms import losses
from rlcore_algorithms.reductions import sequence_mean_token_mean

COLUMNS = (
    Column(name="desirable", dims=ROW, dtype="bool", meaning="its answer is desirable", writer="data"),
    Column(name="mismatched", dims=ROW, dtype="bool", meaning="its answer is that of another prompt", writer="data"),
    Column(
        name="mismatch_kl",
        dims=NONE,
        dtype="float",
        meaning="mean log-ratio to the reference of mismatched answers, at least 0",
        writer="kto",
        unit="nats",
    ),
)


def labelled(rows: Sequence[Row], encode: RowEncoder) -> list[list[TokenRow]]:
    """Return two rows for each data row: prompt and answer, and the prompt with the answer of the data row before it.

    Raises DataError for a row without a true or false `label`, and for a single row: no other has an answer.
    """
    if len(rows) < 2:
        raise DataError("kto puts each prompt beside the answer of another row: set prompts to 2 or more")
    made = []
    for row, other in zip(rows, [rows[-1], *rows[:-1]], strict=True):
        label = check_columns(row, "completion", "label")["label"]
        if not isinstance(label, bool | int) or label not in (0, 1):
            raise DataError(f"label={label!r:.60}: expected true (desirable) or false")
        own = encode.answer(row, row["completion"])._replace(columns={"desirable": bool(label), "mismatched": False})
        mixed = encode.answer(row, check_columns(other, "completion")["completion"])
        made.append([own, mixed._replace(columns={"desirable": False, "mismatched": True})])
    return made


labelled.columns = ("desirable", "mismatched")  # type: ignore[attr-defined]


class Mismatch(NamedTuple):
    """z, in nats, and the mask without the rows that it was measured on."""

    mismatch_kl: float
    mask: Bool[Tensor, "B T"]


def measure_mismatch(
    old_logprob: Float[Tensor, "B T"],
    ref_logprob: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    mismatched: Bool[Tensor, " B"],
) -> Mismatch:
    """Return z: the mean log-ratio of mismatched rows, at least 0; they are trained on no more."""
    ratio = masked_sum(single(old_logprob) - single(ref_logprob), mask, dim=1)[mismatched]
    return Mismatch(max(float(ratio.mean()), 0.0), mask & ~mismatched[:, None])


def kto(
    *,
    beta: float = 0.1,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
    epochs: int = 1,
    minibatches: int = 1,
) -> OfflineAlgorithm:
    """KTO: learns from answers that are each desirable or not, without pairs, against a frozen reference."""
    weights = {"desirable_weight": desirable_weight, "undesirable_weight": undesirable_weight}
    return OfflineAlgorithm(
        name="kto",
        rows=labelled,
        loss=bind(losses.kto, beta=beta, **weights),
        reduction=sequence_mean_token_mean,
        nodes=(Node(measure_mismatch, name="mismatch"),),
        epochs=epochs,
        minibatches=minibatches,
    )
