"""Negative log-likelihood: supervised training on the tokens of a data set."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import masked, single


def nll(logprob: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Return the loss [B, T] per token, in nats: -logprob; 0 off the mask.

    Source: maximum likelihood; with the token mean it is the usual cross-entropy of supervised fine-tuning (Ouyang et
    al. 2022, arXiv:2203.02155, section 3.5). What differs: nothing; prompts are off the mask.
    """
    return -masked(single(logprob), mask)
