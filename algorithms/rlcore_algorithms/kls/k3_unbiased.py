"""k3 times the importance ratio (DeepSeek-AI 2025, DeepSeek-V3.2, arXiv:2512.02556)."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import LIMITS, Limits, k3, limited, log_ratio, masked, masked_mean, single


def k3_unbiased(
    logprob: Float[Tensor, "B T"],
    ref_logprob: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"] | None = None,
    *,
    level: Literal["token", "sequence"] = "token",
    log_ratio_limits: Limits = LIMITS,
) -> Float[Tensor, "B T"]:
    """Return the KL [B, T] per token, in nats: r k3, with the gradient of the whole product.

        r = exp(logprob - old_logprob)

    Tokens come from the old policy; the ratio makes value and gradient those of the current one, so a token that has
    become improbable pulls with its probability and not with 1. Without it k3's gradient grows without bound where the
    policy is far below the reference.
    level: what r is taken over. "token": each token has the ratio above. "sequence": all tokens of a row share one, exp
    of the mean log ratio over `mask` (without a mask over the whole row), as beside a loss with one ratio a row.
    log_ratio_limits: bounds, in nats, of both exponents, with the gradient of the clamped value.

    Source: the report's unbiased KL estimate. What differs: the clamp to +-20. As KL in the reward the ratio is 1.
    """
    now, reference, old = (
        single(x) if mask is None else masked(single(x), mask) for x in (logprob, ref_logprob, old_logprob)
    )
    if level == "sequence":
        mean = (now - old).mean(1) if mask is None else masked_mean(now - old, mask, dim=1)
        ratio = limited(mean[:, None], log_ratio_limits).exp()
    else:
        ratio = log_ratio(now, old, limits=log_ratio_limits).exp()
    return ratio * k3(now, reference, log_ratio_limits=log_ratio_limits)
