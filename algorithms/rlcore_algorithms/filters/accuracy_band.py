"""A filter that keeps prompts of medium difficulty (Cui et al. 2025, PRIME, arXiv:2502.01456)."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import group_sum, wide


def accuracy_band(
    score: Float[Tensor, " B"], group: Int[Tensor, " B"], *, least: float = 0.2, most: float = 0.8
) -> Int[Tensor, " kept"]:
    """Return the rows, as indices in order, of the groups whose mean score is within [least, most]; groups stay whole.

    Looked at is the raw score, never the shaped reward. Rows that could not be scored (NaN) have no vote; a group
    without a scored row goes.
    least, most: bounds on the mean score, both included.

    Raises ConfigError if least is above most.
    Source: online prompt filtering, with its bounds. What differs: scores need not be 0 or 1.
    """
    if least > most:
        raise ConfigError(f"accuracy_band: least={least} is above most={most}, so every group would go")
    scored = ~score.isnan()
    count = group_sum(scored.double(), group)
    mean = group_sum(wide(score).nan_to_num(), group) / count.clamp(min=1)
    return ((count > 0) & (mean >= least) & (mean <= most)).nonzero().squeeze(1)
