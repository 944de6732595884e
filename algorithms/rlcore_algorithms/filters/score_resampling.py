"""Rows drawn with repeats by their score (Shen and Zhang 2024, Policy Filtration, PF-PPO, arXiv:2409.06957)."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rlcore.component import OnlyWith
from rlcore.math import wide
from rlcore.seeding import generator


def score_resampling(
    score: Float[Tensor, " B"],
    session: Int[Tensor, " B"],
    seed: int,
    *,
    by: Literal["power", "extremes", "best_or_random"] = "power",
    power: Annotated[float, OnlyWith("by", "power")] = 2.0,
) -> Int[Tensor, " drawn"]:
    """Return rows, as indices into the input, drawn with repeats: as many as were scored, in proportion to a weight.

        power            w = |S|^power
        extremes         w = 1 at the largest and the smallest score of the batch, else 0
        best_or_random   w = 0.4 at the largest score, else 0.1

    Rewards of middling scores are the least reliable, so rows of other scores are preferred. A row that is drawn twice
    is trained on twice, as two sessions. Rows that could not be scored (NaN) are never drawn. The draw depends on
    `seed` and on the sessions, not on the order of the rows.
    It works on the rows of a whole batch and splits groups: use it with an estimator that compares no groups, or in a
    node with per="batch" after one that does.
    by: which weight. power: the exponent of "power", at least 0.

    Source: policy filtration by rank within a prompt's samples (best-of-n, best-random, best-worst). What differs: as
    in its public implementation, the weights look at the batch and not at one prompt's samples; 1e-8 is added to each.
    """
    scored = (~score.isnan()).nonzero().squeeze(1)
    if not len(scored):
        return scored
    # By session and not by place, so that another order of the rows draws the same sessions.
    scored = scored[torch.argsort(session[scored], stable=True)]
    value = wide(score)[scored]
    if by == "power":
        weight = value.abs() ** power
    elif by == "extremes":
        weight = ((value == value.max()) | (value == value.min())).double()
    else:
        weight = torch.where(value == value.max(), 0.4, 0.1).double()
    drawn = torch.multinomial(weight + 1e-8, len(scored), replacement=True, generator=generator(seed, "resampling"))
    return scored[drawn]
