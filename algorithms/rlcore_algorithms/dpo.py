"""DPO: direct preference optimization (Rafailov et al. 2023, arXiv:2305.18290, equation 7).

    loss = -log sigmoid(beta (log-ratio of the chosen answer to the reference - that of the rejected one))

A row of the data has `prompt`, `chosen` and `rejected`, texts or messages. What differs from the paper:
nothing; answers end with EOS.
"""

from __future__ import annotations

from rlcore.component import bind
from rlcore.offline import OfflineAlgorithm, pairs
from rlcore_algorithms import losses
from rlcore_algorithms.reductions import sequence_mean_token_mean


def dpo(*, beta: float = 0.1, label_smoothing: float = 0.0, epochs: int = 1, minibatches: int = 1) -> OfflineAlgorithm:
    """DPO: learns which of two answers was preferred, against a frozen reference; no reward is needed."""
    return OfflineAlgorithm(
        name="dpo",
        rows=pairs,
        loss=bind(losses.dpo, beta=beta, label_smoothing=label_smoothing),
        reduction=sequence_mean_token_mean,
        epochs=epochs,
        minibatches=minibatches,
    )
