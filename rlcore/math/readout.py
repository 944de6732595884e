"""Readouts: quantities of a token computed from the logits at its position, a piece of the microbatch at a time.

Each takes `logits` [n, V], float32 and already divided by the sampling temperature, and `token` [n]; it returns [n].
A logit of -inf is a token of probability 0.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rlcore.math.precision import single


def logprob(logits: Float[Tensor, "n V"], token: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Return the log-probability of each token, in nats: z_token - logsumexp(z), with z the logits."""
    z = single(logits)
    return z.gather(-1, token[:, None]).squeeze(-1) - torch.logsumexp(z, -1)


def entropy(logits: Float[Tensor, "n V"], token: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Return the entropy of each distribution, in nats: logsumexp(z) - sum(p z); between 0 and log V."""
    z = single(logits)
    probability = torch.softmax(z, -1)
    # A token of probability 0 adds 0, but 0 x -inf is NaN.
    return torch.logsumexp(z, -1) - (probability * z.masked_fill(z == -torch.inf, 0)).sum(-1)


def square_sum(logits: Float[Tensor, "n V"], token: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Return sum_v p_v^2 of each distribution: 1 where one token has probability 1, 1 / V where all have the same.

    Computed from the logits z as exp(logsumexp(2 z) - 2 logsumexp(z)). It does not depend on `token`. The advantage
    `token_baseline` reads it, as a part of the squared norm of a token's gradient.
    """
    z = single(logits)
    return torch.exp(torch.logsumexp(2 * z, -1) - 2 * torch.logsumexp(z, -1))
