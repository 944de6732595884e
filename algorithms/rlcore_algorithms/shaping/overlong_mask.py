"""Truncated answers are not trained on (Yu et al. 2025, DAPO, arXiv:2503.14476, section 3.4)."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Int
from torch import Tensor

from rlcore.math import group_max
from rlcore.protocols import Stop


class Masked(NamedTuple):
    """Which tokens are trained on, [B, T]."""

    mask: Bool[Tensor, "B T"]


def overlong_mask(
    mask: Bool[Tensor, "B T"], stop: Int[Tensor, " B"], session: Int[Tensor, " B"] | None = None
) -> Masked:
    """Return the mask [B, T], off on every row of a session that was cut off by a bound on its length.

    Such a row is in no denominator, and, as none of its tokens is trained on, in no estimator's statistics: its score
    says little about an answer that was not finished. A row that ends by itself exactly at the bound is finished. A
    session counts as truncated if any of its rows was.

    Source: overlong filtering, section 3.4. What differs: there the loss alone is masked, and the reward of a masked
    row still votes in its group's mean.
    """
    cut = (stop == Stop.LENGTH).float()
    if session is not None:
        cut = group_max(cut, session)
    return Masked(mask & (cut == 0)[:, None])
