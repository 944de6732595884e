"""A mask that leaves one of several equal answers to a prompt."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from rlcore.math import group_max, group_min
from rlcore_algorithms.shaping.overlong_mask import Masked


def duplicate_mask(
    mask: Bool[Tensor, "B T"],
    tokens: Int[Tensor, "B T"],
    sampled: Bool[Tensor, "B T"],
    group: Int[Tensor, " B"],
    session: Int[Tensor, " B"],
    segment: Int[Tensor, " B"],
) -> Masked:
    """Return the mask [B, T], off on sessions that repeat the sampled tokens of another session of their group.

    A policy that has collapsed draws one answer many times; here it counts once, in the loss and in the group's
    statistics. Sessions are compared token by token over all of their rows. The one with the smallest id is kept, so
    the order of the rows plays no part.

    Source: none; duplicates weigh a sample by its own probability once more than the policy gradient does.
    """
    if not len(mask):
        return Masked(mask)
    name = _name_of_session(tokens, sampled, session, segment)
    _, alike = torch.unique(torch.stack([group, name], 1), dim=0, return_inverse=True)
    # A session that is off already (unscored, truncated) is not the one that is kept.
    trained = group_max(mask.any(1).float(), session) > 0
    rank = torch.unique(session, return_inverse=True)[1].double().masked_fill(~trained, torch.inf)
    return Masked(mask & (rank == group_min(rank, alike))[:, None])


def _name_of_session(
    tokens: Int[Tensor, "B T"], sampled: Bool[Tensor, "B T"], session: Int[Tensor, " B"], segment: Int[Tensor, " B"]
) -> Int[Tensor, " B"]:
    """Return a number for each row that two rows share exactly if the sampled tokens of their sessions are equal."""
    row, place = sampled.nonzero(as_tuple=True)
    _, slot = torch.unique(session, return_inverse=True)
    order = torch.argsort(place, stable=True)
    order = order[torch.argsort(segment[row[order]], stable=True)]
    order = order[torch.argsort(slot[row[order]], stable=True)]
    owner = slot[row[order]]
    length = torch.bincount(owner, minlength=int(slot.max()) + 1)
    position = torch.arange(len(owner)) - (length.cumsum(0) - length)[owner]
    # -1 is no id, so an answer never equals a longer one that starts with it; one column where nothing was sampled.
    answers = torch.full((len(length), max(int(length.max()), 1)), -1, dtype=tokens.dtype)
    answers[owner, position] = tokens[row, place][order]
    _, name = torch.unique(answers, dim=0, return_inverse=True)
    return name[slot]
