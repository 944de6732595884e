"""What corrections and selects write: NamedTuples whose fields are columns, and `metrics` beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.math import masked


class Weight(NamedTuple):
    """Importance weights [B, T], detached; 0 keeps a token in every denominator and takes its gradient."""

    weight: Float[Tensor, "B T"]


class WeightAndMetrics(NamedTuple):
    """Importance weights [B, T], detached, and what they look like."""

    weight: Float[Tensor, "B T"]
    metrics: Mapping[str, Any]


class MaskAndMetrics(NamedTuple):
    """The tokens [B, T] that are still trained on and counted, and what was looked at."""

    mask: Bool[Tensor, "B T"]
    metrics: Mapping[str, Any]


def times(weight: Float[Tensor, "B T"] | None, factor: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """The weights so far times a factor, detached; the factor alone where nothing weighed before.

    Where the factor is 0, as off the mask, what stood there has no say.
    """
    return (factor if weight is None else masked(weight.to(factor.dtype), factor != 0) * factor).detach()
