"""KL-Cov (Cui et al. 2025, The Entropy Mechanism, arXiv:2505.22617); needs the select `kl_cov`."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import LIMITS, Limits, log_ratio, masked, single
from rlcore.protocols import LossOutput


def kl_cov(
    logprob: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    selected: Bool[Tensor, "B T"],
    *,
    coefficient: float = 1.0,
    log_ratio_limits: Limits = LIMITS,
) -> LossOutput:
    """Return the loss [B, T] per token: the plain surrogate, and at tokens of high covariance a pull to the old policy.

        loss = -A exp(logprob - old_logprob) + selected coefficient |logprob - old_logprob|

    0 off the mask. `selected`, 0 or 1, is written by the select `kl_cov`, once per update over all of its rows.
    coefficient: of the pull, per nat, at least 0. log_ratio_limits: bounds of the ratio's exponent; the pull has none.

    Metrics: `selected_share`; `distance`, the mean of |logprob - old_logprob|; `ratio`; `old_kl`, in nats.

    Raises ConfigError for a negative coefficient.
    Source: the paper's KL-Cov. What differs: the paper's KL of the two policies is the absolute log ratio, as in its
    code; the log ratio is clamped to +-20 inside the exponential.
    """
    if coefficient < 0:
        raise ConfigError(f"kl_cov: coefficient={coefficient} is negative and would push away; at least 0")
    gain = masked(single(advantage), mask)
    ratio = masked(log_ratio(logprob, old_logprob, limits=log_ratio_limits), mask).exp()
    difference = masked(single(logprob), mask) - masked(single(old_logprob), mask)
    chosen = selected.bool() & mask.bool()
    loss = -gain * ratio + coefficient * masked(difference.abs(), chosen)
    metrics: dict[str, Tensor | tuple[Tensor, str]] = {
        "selected_share": chosen.to(loss.dtype),
        "distance": difference.detach().abs(),
        "ratio": ratio.detach(),
        "old_kl": -difference.detach(),
    }
    return LossOutput(loss, metrics)
