"""IPO: identity preference optimization (Azar et al. 2023, arXiv:2310.12036, equation 17).

    loss = (log-ratio of the chosen answer to the reference - that of the rejected one - 1 / (2 beta))^2

A row of the data has `prompt`, `chosen` and `rejected`, texts or messages. What differs from the paper:
log-ratios are means over tokens (see the loss `ipo`).
"""

from __future__ import annotations

from rlcore.component import bind
from rlcore.offline import OfflineAlgorithm, pairs
from rlcore_algorithms import losses
from rlcore_algorithms.reductions import sequence_mean_token_mean


def ipo(*, beta: float = 0.1, epochs: int = 1, minibatches: int = 1) -> OfflineAlgorithm:
    """IPO: like DPO, with a margin that is asked for and not exceeded."""
    return OfflineAlgorithm(
        name="ipo",
        rows=pairs,
        loss=bind(losses.ipo, beta=beta),
        reduction=sequence_mean_token_mean,
        epochs=epochs,
        minibatches=minibatches,
    )
