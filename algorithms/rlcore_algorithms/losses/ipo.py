"""The loss of identity preference optimization (Azar et al. 2023, arXiv:2310.12036, equation 17)."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import masked, masked_mean, masked_sum, pair_difference, single
from rlcore.protocols import LossOutput
from rlcore_algorithms.losses.dpo import pair_metrics


def ipo(
    logprob: Float[Tensor, "B T"],
    ref_logprob: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    pair: Int[Tensor, " B"],
    chosen: Bool[Tensor, " B"],
    *,
    beta: float = 0.1,
    per_token: bool = True,
) -> LossOutput:
    """Return the loss [B] of each row's pair.

        h    = log-ratio of the chosen answer to the reference - that of the rejected one
        loss = (h - 1 / (2 beta))^2

    beta: the paper's tau, above 0.
    per_token: log-ratios are means over the answer's tokens; False sums them, as the paper writes it.

    Metrics: `accuracy`, `margin`, `chosen_reward` and `rejected_reward`, with h in place of the margin.

    Raises ConfigError for a beta that is not above 0, ComponentError for a pair with several rows of a side.
    Source: equation 17. What differs: means over tokens, as the authors' own experiments and TRL have them.
    """
    if beta <= 0:
        raise ConfigError(f"ipo: beta={beta} must be above 0")
    over = masked_mean if per_token else masked_sum
    reward = over(single(logprob) - single(ref_logprob), mask, dim=1)
    margin, whole = pair_difference(reward, mask, pair, chosen)
    loss = (margin - 1 / (2 * beta)).square()
    return LossOutput(masked(loss, whole), pair_metrics(reward, margin, chosen, whole))
