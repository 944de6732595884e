"""How the rows of a batch are split into minibatches (one optimizer update each) and these into microbatches.

A unit is a set of rows that is never split, such as a group. Microbatches change memory and speed and no result, since
counts are taken over the whole optimizer update.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import torch
from torch import Tensor

from rlcore.columns import ROW, ColumnTable
from rlcore.seeding import stream

_NO_INDEX = ("segment", "stop")
"""Columns of integers per row without a unit that name nothing in common."""


def is_index_column(name: str, table: ColumnTable) -> bool:
    """Return whether a column of integers per row names what rows have in common (a group, a session, a pair)."""
    column = table[name]
    return column.dims == ROW and column.dtype == "int" and not column.unit and name not in _NO_INDEX


def units(index: Mapping[str, Tensor], rows: int) -> Tensor:
    """Return a label [B] of each row's unit. Rows that are equal in any of the index columns belong to one unit.

    So do rows that a third one connects. With `group` among the columns the label is the smallest group id of the
    unit, which does not depend on the order of the rows; without any column each row is a unit of its own.
    """
    label = index["group"] if "group" in index else torch.arange(rows)
    links = [torch.unique(ids, return_inverse=True)[1] for name, ids in index.items() if name != "group"]
    if "group" in index and links:
        links.append(torch.unique(label, return_inverse=True)[1])
    while True:
        before = label
        for link in links:
            least = label.new_full((int(link.max()) + 1,), torch.iinfo(torch.int64).max)
            label = least.scatter_reduce(0, link, label, "amin")[link]
        if torch.equal(before, label):
            return label


def minibatches(unit: Tensor, parts: int, *, seed: int) -> list[Tensor]:
    """Return the row indices of each minibatch: `parts` of them, of nearly as many whole units each.

    Which units form a minibatch is drawn from `seed` and their labels; the order of the rows plays no part. With fewer
    units than `parts` there are fewer minibatches, none of them empty. Rows keep the order of the batch.
    """
    labels, member = torch.unique(unit, return_inverse=True)
    keys = [stream(seed, "minibatch", label) for label in labels.tolist()]
    rank = torch.empty(len(keys), dtype=torch.int64)
    rank[torch.tensor(sorted(range(len(keys)), key=keys.__getitem__), dtype=torch.int64)] = torch.arange(len(keys))
    part = rank[member] * min(parts, len(keys)) // max(1, len(keys))
    return [(part == number).nonzero().flatten() for number in range(min(parts, len(keys)))]


def microbatches(length: Tensor, unit: Tensor, *, token_budget: int, group: Tensor | None = None) -> list[Tensor]:
    """Return the row indices of each microbatch, of at most `token_budget` tokens and rows of similar length.

    A unit is never split, also where it exceeds the budget. With `group` [B] the rows of a group stay together as long
    as they fit the budget, so that their common prompt is computed once.
    """
    lengths: list[int] = length.tolist()
    together: Sequence[Hashable] = unit.tolist()
    if group is not None:
        together = _by_group(unit.tolist(), group.tolist(), lengths, token_budget)
    return [torch.tensor(rows) for rows in fill_microbatches(lengths, together, token_budget=token_budget)]


def fill_microbatches(lengths: Sequence[int], together: Sequence[Hashable], *, token_budget: int) -> list[list[int]]:
    """Return rows in microbatches of at most `token_budget` tokens, longest rows first; every row exactly once.

    A microbatch has the sum of its rows' `lengths`, as they are packed without padding. Rows with equal labels in
    `together` are in one microbatch; where they alone exceed the budget, nothing else is in it. Rows of equal length
    keep their order.
    """
    units: dict[Hashable, list[int]] = {}
    for row, label in enumerate(together):
        units.setdefault(label, []).append(row)
    filled: list[list[int]] = []
    used = 0
    for rows in sorted(units.values(), key=lambda rows: -max(lengths[row] for row in rows)):
        tokens = sum(lengths[row] for row in rows)
        if filled and used + tokens <= token_budget:
            filled[-1].extend(rows)
            used += tokens
        else:
            filled.append(rows)
            used = tokens
    return filled


def _by_group(unit: list[int], group: list[int], length: list[int], token_budget: int) -> list[tuple[int, int]]:
    """Return a label per row, (group, part): parts of whole units of at most `token_budget` tokens."""
    tokens: dict[int, int] = {}
    for label, count in zip(unit, length, strict=True):
        tokens[label] = tokens.get(label, 0) + count
    part_of: dict[int, tuple[int, int]] = {}
    filled: dict[int, tuple[int, int]] = {}
    for label, of_group in zip(unit, group, strict=True):
        if label in part_of:
            continue
        part, used = filled.get(of_group, (0, 0))
        if used and used + tokens[label] > token_budget:
            part, used = part + 1, 0
        part_of[label] = (of_group, part)
        filled[of_group] = (part, used + tokens[label])
    return [part_of[label] for label in unit]
