"""Weights with mean 1 over the step: self-normalised importance sampling (Owen 2013, Monte Carlo book, section 9.2)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import masked, masked_mean, single
from rlcore_algorithms.outputs import WeightAndMetrics


def normalized(
    weight: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], *, over: Literal["token", "row"] = "token"
) -> WeightAndMetrics:
    """Return the weights of the corrections before it, divided by their mean over the step; 0 off the mask.

    So a bound on the weights changes no learning rate. A mean of 0 divides nothing.
    over: the mean is over "token"s, or over "row"s of each row's mean.

    Metrics: `weight_mean`, what was divided by.
    Source: Owen 2013, equation 9.3. What differs: over the whole step, before it is cut into minibatches.
    """
    before = masked(single(weight), mask)
    mean = masked_mean(before, mask) if over == "token" else masked_mean(masked_mean(before, mask, dim=1), mask.any(1))
    metrics: dict[str, Any] = {"weight_mean": mean}
    return WeightAndMetrics((before / torch.where(mean > 1e-8, mean, 1)).detach(), metrics)
