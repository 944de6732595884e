"""What is read off the logits of a position. A trainer runs these over chunks, never over a whole microbatch.

All take `logits` [n, V], float32 and already divided by the sampling temperature, and `token` [n], and give [n].
A logit of -inf is a token of probability 0.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rlcore.math.precision import single


def logprob(logits: Float[Tensor, "n V"], token: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Log-probability of each token, in nats: z_token - logsumexp(z)."""
    z = single(logits)
    return z.gather(-1, token[:, None]).squeeze(-1) - torch.logsumexp(z, -1)


def entropy(logits: Float[Tensor, "n V"], token: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Entropy of each distribution, in nats: logsumexp(z) - sum(p z); between 0 and log V."""
    z = single(logits)
    probability = torch.softmax(z, -1)
    # Probability 0 has a share of 0, but 0 x -inf is NaN.
    return torch.logsumexp(z, -1) - (probability * z.masked_fill(z == -torch.inf, 0)).sum(-1)


def square_sum(logits: Float[Tensor, "n V"], token: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Sum of the squared probabilities of each distribution: exp(logsumexp(2 z) - 2 logsumexp(z)); in (0, 1]."""
    z = single(logits)
    return torch.exp(torch.logsumexp(2 * z, -1) - 2 * torch.logsumexp(z, -1))
