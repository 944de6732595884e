"""SimPO: simple preference optimization (Meng et al. 2024, arXiv:2405.14734, equation 6).

    loss = -log sigmoid(beta (mean log-probability of the chosen answer - that of the rejected one) - gamma)

A row of the data has `prompt`, `chosen` and `rejected`, texts or messages. What differs from the paper: nothing.
"""

from __future__ import annotations

from rlcore.component import bind
from rlcore.offline import OfflineAlgorithm, pairs
from rlcore_algorithms import losses
from rlcore_algorithms.reductions import sequence_mean_token_mean


def simpo(*, beta: float = 2.0, gamma: float = 0.5, epochs: int = 1, minibatches: int = 1) -> OfflineAlgorithm:
    """SimPO: learns which of two answers was preferred, without a reference model."""
    return OfflineAlgorithm(
        name="simpo",
        rows=pairs,
        loss=bind(losses.simpo, beta=beta, gamma=gamma),
        reduction=sequence_mean_token_mean,
        epochs=epochs,
        minibatches=minibatches,
    )
