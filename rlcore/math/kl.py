"""Per-token estimates of KL(pi || pi_ref) from one sampled token (Schulman 2020, joschu.net/blog/kl-approx.html).

With d = logprob - ref_logprob. All are in nats and float32 (float64 stays), and 0 where both policies agree. The shape
is that of both inputs: [B, T] in a run. In a loss they are differentiated by `logprob`; for KL in the reward a run
calls them with the column `old_logprob` as the argument `logprob`.
"""

from __future__ import annotations

import sys

import torch
from jaxtyping import Float
from torch import Tensor

from rlcore.math.precision import single
from rlcore.math.ratio import LIMITS, Limits, limited, log_ratio
from rlcore.shapes import check_module


def k1(logprob: Float[Tensor, "*dims"], ref_logprob: Float[Tensor, "*dims"]) -> Float[Tensor, "*dims"]:
    """Return d: unbiased, of either sign, with the largest variance. The choice for KL in the reward.

    As a loss its expected gradient is 0, so there it holds nothing back.
    Source: Schulman 2020, estimator k1.
    """
    return single(logprob) - single(ref_logprob)


def k2(logprob: Float[Tensor, "*dims"], ref_logprob: Float[Tensor, "*dims"]) -> Float[Tensor, "*dims"]:
    """Return d^2 / 2: never negative, biased in value; as a loss its expected gradient on policy is that of the KL.

    Source: Schulman 2020, estimator k2.
    """
    return 0.5 * (single(logprob) - single(ref_logprob)).square()


def k3(
    logprob: Float[Tensor, "*dims"],
    ref_logprob: Float[Tensor, "*dims"],
    *,
    log_ratio_limits: Limits = LIMITS,
    ceiling: float | None = None,
) -> Float[Tensor, "*dims"]:
    """Return exp(-d) - 1 + d: never negative, unbiased, with a small variance.

    d is clamped to +-20, so value and gradient are finite for any input (the gradient is 0 beyond).
    log_ratio_limits: other bounds of -d. ceiling: an upper bound of the value, above which the gradient is 0; None is
    none. One of 10, as in verl, cuts the gradient where the reference is over 2.6 nats above the policy or 11 below.

    Source: Schulman 2020, estimator k3; Shao et al. 2024, arXiv:2402.03300, equation 4. What differs: the clamp of d.
    """
    d = log_ratio(ref_logprob, logprob, limits=log_ratio_limits)
    # expm1 keeps the digits that exp(d) - 1 loses near 0; rounding may still leave -1e-15.
    return limited(torch.expm1(d) - d, (0.0, ceiling))


def absolute(logprob: Float[Tensor, "*dims"], ref_logprob: Float[Tensor, "*dims"]) -> Float[Tensor, "*dims"]:
    """Return |d|: not a KL, never negative, larger than the KL near 0, with a gradient of one size everywhere.

    Source: not in Schulman 2020; it is the "abs" of public PPO implementations (TRL, verl). What differs: nothing;
    the gradient at d = 0 is 0.
    """
    return (single(logprob) - single(ref_logprob)).abs()


def k1_straight_through(logprob: Float[Tensor, "*dims"], ref_logprob: Float[Tensor, "*dims"]) -> Float[Tensor, "*dims"]:
    """Return k1 with the gradient of k2: an unbiased value, and in expectation on policy the gradient of the KL.

    Source: Tang and Munos 2025, arXiv:2506.09477, for why k1 and k3 have another gradient than the KL. What
    differs: the paper takes k2 as it is; only the value that is reported differs from that.
    """
    return _straight_through(k1(logprob, ref_logprob), logprob, ref_logprob)


def k3_straight_through(
    logprob: Float[Tensor, "*dims"],
    ref_logprob: Float[Tensor, "*dims"],
    *,
    log_ratio_limits: Limits = LIMITS,
    ceiling: float | None = None,
) -> Float[Tensor, "*dims"]:
    """Return k3 with the gradient of k2, which no clamp of the value cuts.

    Source and what differs: as k1_straight_through. log_ratio_limits, ceiling: of the value, as in k3.
    """
    value = k3(logprob, ref_logprob, log_ratio_limits=log_ratio_limits, ceiling=ceiling)
    return _straight_through(value, logprob, ref_logprob)


def absolute_straight_through(
    logprob: Float[Tensor, "*dims"], ref_logprob: Float[Tensor, "*dims"]
) -> Float[Tensor, "*dims"]:
    """Return |d| with the gradient of k2. Source and what differs: as k1_straight_through."""
    return _straight_through(absolute(logprob, ref_logprob), logprob, ref_logprob)


def _straight_through(value: Tensor, logprob: Tensor, ref_logprob: Tensor) -> Tensor:
    slope = k2(logprob, ref_logprob)
    return value.detach() + (slope - slope.detach())


def full(logits: Float[Tensor, "n V"], ref_logits: Float[Tensor, "n V"]) -> Float[Tensor, " n"]:
    """Return KL(pi || pi_ref) [n] over the whole vocabulary, in nats: sum_v p_v (log p_v - log q_v) at each position.

    Both logits are divided by the sampling temperature already. Never negative; a token of probability 0 (a logit of
    -inf) adds nothing; infinite where the reference excludes a token that the policy does not. It takes logits and not
    columns: the trainer calls it on pieces for which it has the logits of both models.
    Source: Kullback and Leibler 1951, doi:10.1214/aoms/1177729694. What differs: nothing.
    """
    log_p, log_q = torch.log_softmax(single(logits), -1), torch.log_softmax(single(ref_logits), -1)
    difference = torch.where(log_p == -torch.inf, 0, log_p - log_q)
    return (log_p.exp() * difference).sum(-1).clamp(min=0)


def forward_top(logits: Float[Tensor, "n V"], ref_logits: Float[Tensor, "n V"], *, top: int = 0) -> Float[Tensor, " n"]:
    """Return KL(pi_ref || pi) [n] over the reference's `top` likeliest tokens, in nats: sum_v q_v (log q_v - log p_v).

    top: how many tokens; 0, or more than there are, takes the whole vocabulary. Probabilities are those of the whole
    vocabulary, so that what is left out is no part of the sum; with few tokens it may be negative.
    Source: Hinton et al. 2015, arXiv:1503.02531, section 2, less the entropy of the teacher's own distribution. What
    differs: the bound on tokens.
    """
    log_p, log_q = torch.log_softmax(single(logits), -1), torch.log_softmax(single(ref_logits), -1)
    if 0 < top < log_q.shape[-1]:
        log_q, places = log_q.topk(top, dim=-1)
        log_p = log_p.gather(-1, places)
    difference = torch.where(log_q == -torch.inf, 0, log_q - log_p)
    return (log_q.exp() * difference).sum(-1)


check_module(sys.modules[__name__])
