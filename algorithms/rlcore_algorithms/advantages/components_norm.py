"""Each component of the score normalised on its own (Liu et al. 2026, GDPO, arXiv:2601.05242)."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rlcore.component import OnlyWith
from rlcore.errors import ConfigError
from rlcore.math import single
from rlcore_algorithms.advantages.norm import norm


def components_norm(
    score_components: Float[Tensor, "B K"],
    group: Int[Tensor, " B"],
    *,
    weights: tuple[float, ...] = (),
    scale_by_std: bool = True,
    leave_one_out: bool = False,
    epsilon: Annotated[float, OnlyWith("scale_by_std")] = 1e-6,
    keep_single: bool = False,
) -> Float[Tensor, " B"]:
    """Return the advantage [B]: the weighted sum over the score components, each normalised within its group.

        A_i = sum_k w_k (R_ik - mean(R_k)) / (std(R_k) + epsilon)

    Two components that add up to the same total keep telling samples apart, and a component of small spread is not
    drowned by one of large spread. A component that is equal within a group, or stands in a group of one, adds
    exactly 0.
    weights: one per component, in the order of the names of the components; all 1 if empty.
    scale_by_std, leave_one_out, epsilon, keep_single: those of `norm`, for every component.

    Raises ConfigError for another number of weights than components.
    Source: the decoupled normalisation. What differs: its last step, over the batch, is a step of its own
    (`advantage=[components_norm, whiten]`); penalties in the reward (KL, overlong) are not among the components
    and not seen.
    """
    count = score_components.shape[1]
    if weights and len(weights) != count:
        raise ConfigError(
            f"components_norm: {len(weights)} weights {weights} for {count} score components; give one per component"
        )
    scale = "group" if scale_by_std else "none"
    options: dict[str, Any] = dict(scale=scale, leave_one_out=leave_one_out, epsilon=epsilon, keep_single=keep_single)
    weighted = [
        weight * norm(score_components[:, k], group, **options) for k, weight in enumerate(weights or (1.0,) * count)
    ]
    return torch.stack(weighted).sum(0) if weighted else single(score_components).new_zeros(len(score_components))
