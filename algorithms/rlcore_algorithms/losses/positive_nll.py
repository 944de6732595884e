"""Likelihood of the right answers (Yue et al. 2025, VAPO, arXiv:2504.05118, section 4.3)."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import masked, single
from rlcore.protocols import LossOutput


def positive_nll(
    logprob: Float[Tensor, "B T"], score: Float[Tensor, " B"], mask: Bool[Tensor, "B T"], *, threshold: float = 0.0
) -> LossOutput:
    """Return the loss [B, T] per token, in nats: -logprob in rows whose score is above `threshold`; 0 elsewhere.

    For a second term beside a policy loss, with the paper's coefficient 0.1. It looks at the grader's own score, never
    at a shaped reward; an unscored row (NaN) is not right.

    Metrics: `positive_share`, tokens in such rows.
    Source: section 4.3, equations 9 and 10. What differs: the mean is over what the reduction counts (all tokens of the
    update under token_mean), where the paper's is over the tokens of right answers alone: their share scales it.
    """
    right = mask.bool() & (score > threshold)[:, None]
    return LossOutput(-masked(single(logprob), right), {"positive_share": right.to(single(logprob).dtype)})
