"""The weighted sum of the score components as the reward."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import PlacedReward, place_on_last_token, single


def weighted_components(
    score_components: Float[Tensor, "B K"],
    sampled: Bool[Tensor, "B T"],
    session: Int[Tensor, " B"] | None = None,
    segment: Int[Tensor, " B"] | None = None,
    *,
    weights: tuple[float, ...] = (),
) -> PlacedReward:
    """Return the weighted sum of the score components as the reward, on the last sampled token of the session.

        R_i = sum_k w_k S_ik

    Use it instead of the score, or as an algorithm's rule for placing the reward on
    tokens. Filters and reports still look at the score.
    weights: one per component, in the order of the names of the components; all 1 if empty.

    Raises ConfigError for another number of weights than components.
    Source: none; the usual mixture of rewards. `components_norm` normalises each component before the sum
    instead (GDPO).
    """
    count = score_components.shape[1]
    if weights and len(weights) != count:
        raise ConfigError(
            f"weighted_components: {len(weights)} weights {weights} for {count} score components; "
            f"give one per component"
        )
    values = single(score_components)
    total = values @ torch.tensor(weights or (1.0,) * count, dtype=values.dtype, device=values.device)
    return place_on_last_token(total, sampled, session, segment)
