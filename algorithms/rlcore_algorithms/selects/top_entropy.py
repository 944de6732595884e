"""Training on the tokens of highest entropy (Wang et al. 2025, Beyond the 80/20 Rule, arXiv:2506.01939, section 5)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import masked, single
from rlcore_algorithms.outputs import WeightAndMetrics, times


def top_entropy(
    entropy: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    weight: Float[Tensor, "B T"] | None = None,
    *,
    share: float = 0.2,
) -> WeightAndMetrics:
    """Return weights [B, T]: 1 at the `share` of the update's trained tokens with the highest entropy, 0 elsewhere.

    The threshold is the (1 - share) quantile over the whole optimizer update; tokens at it are in. Tokens of weight 0
    stay in every denominator, as in the paper.
    share: in (0, 1]; 1 keeps all.

    Metrics: `kept_share`; `threshold`, the least entropy that is kept, in nats.

    Raises ConfigError for a share outside that.
    Source: the objective of section 5, with its 20 %. What differs: the paper's batch is here the optimizer update.
    """
    if not 0 < share <= 1:
        raise ConfigError(f"top_entropy: share={share} must be above 0 and at most 1")
    values = single(entropy)[mask.bool()].sort().values
    if not len(values):
        return WeightAndMetrics(times(weight, torch.zeros_like(single(entropy))), {})
    # The smallest entry at or above the quantile; 1e-9 keeps (1 - 0.9) x 10 from rounding up past a whole number.
    threshold = values[math.ceil((1 - share) * (len(values) - 1) - 1e-9)]
    kept = masked((single(entropy) >= threshold).to(values.dtype), mask)
    metrics = {"kept_share": kept, "threshold": threshold.detach()}
    return WeightAndMetrics(times(weight, kept), metrics)
