"""Which rows go through the model together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def microbatches(
    lengths: Sequence[int], *, token_budget: int, together: Sequence[Any] | None = None, padded: bool = True
) -> list[list[int]]:
    """Row indices in microbatches of at most `token_budget` tokens, longest rows first; every row exactly once.

    lengths: tokens of each row.
    padded: a microbatch costs rows x its longest row; otherwise the sum of its lengths (rows packed without padding).
    together: one id per row; rows with equal ids stay in one microbatch.

    A row, or rows that must stay together, longer than the budget are a microbatch of their own: a budget bounds
    memory where it can, and drops nothing. Rows of like length stand together, which keeps padding small; equal
    lengths keep the order of the rows, so the split is a function of its arguments.
    """
    units: dict[Any, list[int]] = {}
    for row in range(len(lengths)):
        units.setdefault(row if together is None else together[row], []).append(row)
    batches: list[list[int]] = []
    longest = total = 0
    for unit in sorted(units.values(), key=lambda rows: -max(lengths[row] for row in rows)):
        unit_longest, unit_total = max(lengths[row] for row in unit), sum(lengths[row] for row in unit)
        if batches:
            rows = len(batches[-1]) + len(unit)
            cost = rows * max(longest, unit_longest) if padded else total + unit_total
            if cost <= token_budget:
                batches[-1].extend(unit)
                longest, total = max(longest, unit_longest), total + unit_total
                continue
        batches.append(list(unit))
        longest, total = unit_longest, unit_total
    return batches
