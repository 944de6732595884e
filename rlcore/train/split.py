"""How the rows of a batch are shared out: which stay together, which form a minibatch, which a microbatch.

Splits change no result: counts are taken over a whole optimizer update. They only decide memory and speed, and which
rows meet in one optimizer update.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import torch
from torch import Tensor

from rlcore.columns import ROW, ColumnTable
from rlcore.seeding import stream

_NO_INDEX = ("segment", "stop")


def is_index_column(name: str, table: ColumnTable) -> bool:
    """Whether a column says which rows belong together: an integer per row without a unit, not a place or a state."""
    column = table[name]
    return column.dims == ROW and column.dtype == "int" and not column.unit and name not in _NO_INDEX


def units(index: Mapping[str, Tensor], rows: int) -> Tensor:
    """Return a label [B]: rows equal in one of the index columns, directly or by way of other rows, have equal labels.

    With `group` among the columns a label is the smallest group id of its rows, so it does not depend on their order;
    without any column each row is a unit of its own.
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
    """Return row indices of near-equal shares of whole units, in an order drawn from `seed` and the labels.

    The order of rows plays no part. Fewer units than `parts` give fewer shares: none is ever empty. Rows stay in the
    order of the batch within a share.
    """
    labels, member = torch.unique(unit, return_inverse=True)
    keys = [stream(seed, "minibatch", label) for label in labels.tolist()]
    place = torch.empty(len(keys), dtype=torch.int64)
    place[torch.tensor(sorted(range(len(keys)), key=keys.__getitem__), dtype=torch.int64)] = torch.arange(len(keys))
    share = place[member] * min(parts, len(keys)) // max(1, len(keys))
    return [(share == part).nonzero().flatten() for part in range(min(parts, len(keys)))]


def microbatches(length: Tensor, unit: Tensor, *, token_budget: int, group: Tensor | None = None) -> list[Tensor]:
    """Return row indices in microbatches of at most `token_budget` tokens, rows of similar length together.

    Rows of one unit stay together, whatever the budget. With `group` [B] rows of one group do too as far as the budget
    goes, so that their prompt is computed once.
    """
    lengths: list[int] = length.tolist()
    together: Sequence[Hashable] = unit.tolist()
    if group is not None:
        together = _by_group(unit.tolist(), group.tolist(), lengths, token_budget)
    return [torch.tensor(rows) for rows in fill_microbatches(lengths, together, token_budget=token_budget)]


def fill_microbatches(lengths: Sequence[int], together: Sequence[Hashable], *, token_budget: int) -> list[list[int]]:
    """Return rows in microbatches of at most `token_budget` tokens, longest rows first; every row exactly once.

    Rows are packed end to end: a microbatch costs the sum of its `lengths`. Rows with equal labels in `together`
    stay in one microbatch. Where a row, or rows that must stay together, are longer than the budget they are a
    microbatch of their own. Equal lengths keep the order of the rows: the split is a function of its arguments.
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
    """Return a label per row: units of one group in shares of at most `token_budget` tokens, each unit whole."""
    tokens: dict[int, int] = {}
    for label, count in zip(unit, length, strict=True):
        tokens[label] = tokens.get(label, 0) + count
    share_of: dict[int, tuple[int, int]] = {}
    filled: dict[int, tuple[int, int]] = {}
    for label, of_group in zip(unit, group, strict=True):
        if label in share_of:
            continue
        share, used = filled.get(of_group, (0, 0))
        if used and used + tokens[label] > token_budget:
            share, used = share + 1, 0
        share_of[label] = (of_group, share)
        filled[of_group] = (share, used + tokens[label])
    return [share_of[label] for label in unit]
