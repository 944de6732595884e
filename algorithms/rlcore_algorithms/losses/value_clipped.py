"""The critic's squared error with a clipped change (Andrychowicz et al. 2021, arXiv:2006.05990, choice C13)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import masked, single
from rlcore.protocols import LossOutput


def value_clipped(
    new_value: Float[Tensor, "B T"],
    value: Float[Tensor, "B T"],
    returns: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    clip: float | None = 0.2,
) -> LossOutput:
    """Return the loss [B, T]: half the squared error, or that of the clipped value where larger; 0 off the mask.

        near = clip(new_value, value - clip, value + clip)
        loss = max((new_value - returns)^2, (near - returns)^2) / 2

    clip: how far the value may move from the one the step began with, in units of reward; None for no bound.

    Metrics: `value_clip_share`, tokens whose value moved by more than `clip`; `value_clip_taken_share`, those at which
    the clipped side was the larger; `value_error`, the mean of returns - new_value.

    Raises ConfigError for a negative clip.
    Source: choice C13 of Andrychowicz et al. What differs: nothing.
    """
    if clip is not None and clip < 0:
        raise ConfigError(f"value_clipped: clip={clip} is negative; give the largest change of a value, or None")
    now, before, target = (masked(single(x), mask) for x in (new_value, value, returns))
    squares = (now - target).square()
    metrics: dict[str, Tensor | tuple[Tensor, str]] = {"value_error": (target - now).detach()}
    if clip is not None:
        # Not before + clip(now - before): its rounding would differ from `now` where nothing is clipped.
        near = now.clamp(before - clip, before + clip)
        near_squares = (near - target).square()
        metrics["value_clip_share"] = (near != now).to(squares.dtype)
        metrics["value_clip_taken_share"] = (near_squares > squares).to(squares.dtype)
        squares = torch.maximum(squares, near_squares)
    return LossOutput(0.5 * squares, metrics)
