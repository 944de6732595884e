"""Several parts of a score as one reward."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import Placed, place_on_last_token, single


def weighted_parts(
    scores: Float[Tensor, "B K"],
    sampled: Bool[Tensor, "B T"],
    session: Int[Tensor, " B"] | None = None,
    part: Int[Tensor, " B"] | None = None,
    *,
    weights: tuple[float, ...] = (),
) -> Placed:
    """The weighted sum of the parts of the score as the reward, on the last sampled token of the session.

        R_i = sum_k w_k S_ik

    In place of the score itself, or as the placing of an algorithm. Filters and reports still look at the score.
    weights: one per part, in the order of the names of the parts; all 1 if empty.

    Raises ConfigError for another number of weights than parts.
    Source: none; the usual mixture of rewards. `parts_norm` normalises each part before the sum instead (GDPO).
    """
    parts = scores.shape[1]
    if weights and len(weights) != parts:
        raise ConfigError(
            f"weighted_parts: {len(weights)} weights {weights} for {parts} parts of the score; give one per part"
        )
    values = single(scores)
    total = values @ torch.tensor(weights or (1.0,) * parts, dtype=values.dtype, device=values.device)
    return place_on_last_token(total, sampled, session, part)
