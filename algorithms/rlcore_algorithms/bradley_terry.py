"""A reward model that is trained on pairs (Ouyang et al. 2022, arXiv:2203.02155, equation 1, with K = 2).

    loss = -log sigmoid(score of the chosen answer - score of the rejected one)

The score is a linear map of the last token's hidden state. A row of the data has `prompt`, `chosen` and `rejected`,
texts or messages, which are read exactly as `reward=reward_model` reads them; the folder `model/` of the run is its
`reward.path`. What differs from the paper: nothing.
"""

from __future__ import annotations

from rlcore.data import Row, RowEncoder, TokenRow
from rlcore.offline import OfflineAlgorithm, answers_apart
from rlcore_algorithms import losses
from rlcore_algorithms.reductions import sequence_mean_token_mean


def scored_pairs(row: Row, encode: RowEncoder) -> list[TokenRow]:
    """Return two rows for a data row: what a reward model reads, and one more token, before which its score stands.

    Raises DataError for a row that lacks one of the answers.
    """
    made, row = [], answers_apart(row)
    for name in ("chosen", "rejected"):
        ids = encode.scored(row, row[name])
        # A value is read before the token that it belongs to: which token follows the last one has no effect.
        learned = [False] * len(ids) + [True]
        made.append(TokenRow([*ids, ids[-1]], learned, len(ids), {"chosen": name == "chosen"}))
    return made


scored_pairs.columns = ("chosen", "pair")  # type: ignore[attr-defined]


def bradley_terry(*, epochs: int = 1, minibatches: int = 1) -> OfflineAlgorithm:
    """Bradley-Terry: trains a reward model on pairs; what comes out is used as reward=reward_model."""
    return OfflineAlgorithm(
        name="bradley_terry",
        rows=scored_pairs,
        loss=losses.bradley_terry,
        reduction=sequence_mean_token_mean,
        epochs=epochs,
        minibatches=minibatches,
    )
