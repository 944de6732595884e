"""Losses of distillation: the KL divergence between a policy and its teacher, token by token."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import masked, single


def reverse_kl(teacher_kl: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Return KL(policy || teacher) [B, T] over the whole vocabulary, in nats; 0 off the mask.

    Source: Agarwal et al. 2023, arXiv:2306.13649, equation 3 with the sides exchanged; Gu et al. 2023, MiniLLM,
    arXiv:2306.08543. What differs: nothing; the gradient does not go through the drawing of the tokens.
    """
    return masked(single(teacher_kl), mask)


def forward_kl(teacher_forward_kl: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Return KL(teacher || policy) [B, T] over the teacher's likeliest tokens, in nats; 0 off the mask.

    Source: Agarwal et al. 2023, arXiv:2306.13649, equation 3. What differs: the bound on tokens (see
    `rlcore.math.kl.forward_top`).
    """
    return masked(single(teacher_forward_kl), mask)
