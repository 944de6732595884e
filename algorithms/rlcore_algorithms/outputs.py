"""Return types of corrections and selects: NamedTuples whose fields are columns, and their `metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import masked


class Weight(NamedTuple):
    """Importance weights [B, T], detached; a token of weight 0 has no gradient and stays in every denominator."""

    weight: Float[Tensor, "B T"]


class WeightAndMetrics(NamedTuple):
    """Importance weights [B, T], detached, and metrics of them."""

    weight: Float[Tensor, "B T"]
    metrics: Mapping[str, Any]


class MaskAndMetrics(NamedTuple):
    """The tokens [B, T] that stay on the mask, and metrics of what was compared."""

    mask: Bool[Tensor, "B T"]
    metrics: Mapping[str, Any]


def times(weight: Float[Tensor, "B T"] | None, factor: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Return a weight times a factor, detached; the factor alone where there is no weight yet.

    Where the factor is 0, as off the mask, the result is 0 even if the weight is NaN.
    """
    return (factor if weight is None else masked(weight.to(factor.dtype), factor != 0) * factor).detach()
