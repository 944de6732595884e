"""SFT: supervised fine-tuning on the answers of a data set (Ouyang et al. 2022, arXiv:2203.02155, section 3.5).

    loss = mean over the tokens of answers of  -log p(token | what stands before it)

What differs from the paper: nothing. Prompts, and what others say in a conversation, are not learned; the mean is over
the tokens of a whole optimizer update, however its rows are split.
"""

from __future__ import annotations

from rlcore.offline import OfflineAlgorithm, completions
from rlcore_algorithms.losses import nll
from rlcore_algorithms.reductions import token_mean


def sft(*, epochs: int = 1, minibatches: int = 1) -> OfflineAlgorithm:
    """SFT: learns the `completion` of each row, or the assistant's turns of its `messages`; no reward is needed."""
    return OfflineAlgorithm(
        name="sft", rows=completions, loss=nll, reduction=token_mean, epochs=epochs, minibatches=minibatches
    )
