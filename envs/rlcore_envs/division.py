"""Rows split into parts by shares, by a column or by the last digit of their place; no question stands in two parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from rlcore.data.rows import Row, value_at
from rlcore.data.split import question_key, split_of
from rlcore.errors import DataError
from rlcore.seeding import stream


class Division(NamedTuple):
    """The row numbers (from 0, ascending) of each part by its name, and how many rows were left out as repeats."""

    parts: dict[str, list[int]]
    left_out: int = 0


def split_by_share(rows: Sequence[Row], shares: Mapping[str, float], *, seed: int, group: str = "") -> Division:
    """Return a division into about these shares of the rows, drawn by `seed`; shares below 1 in sum leave rows out.

    Rows of one question, and of one value of the column `group` (or path of keys), go together, so a part may be off
    its share by less than one such block. Equal rows, shares and seed give equal parts.

    Raises:
        DataError: shares that are not above 0 or add up to more than 1, a row without the group's column, or a part
            that stays empty.
    """
    usable = shares and all(0 < share <= 1 for share in shares.values())  # false for NaN too
    if not usable or sum(Fraction(str(share)) for share in shares.values()) > 1:
        raise DataError(f"shares must be above 0 and add up to at most 1; found {dict(shares)}")
    blocks = linked_blocks(rows, group)
    # Drawn by content, not by place: a block stays where it is when rows are added behind it or reordered.
    order = sorted(blocks, key=lambda block: (stream(seed, "parts", question_key(rows[block[0]])), block[0]))
    parts: dict[str, list[int]] = {name: [] for name in shares}
    taken, bound = 0, Fraction()
    remaining = iter(order)
    for name, share in shares.items():
        bound += Fraction(str(share))
        # A block belongs where its middle falls.
        for block in remaining:
            if 2 * taken + len(block) > 2 * bound * len(rows) and bound < 1:
                remaining = iter([block, *remaining])
                break
            parts[name] += block
            taken += len(block)
    return sorted_division(parts, len(rows))


def split_by_column(rows: Sequence[Row], column: str) -> Division:
    """Return a part for each value of a column (or path of keys), such as `extra_info.split`.

    A row whose question stands in another part already is left out. Raises DataError for a row without the column.
    """
    return split_by_name(rows, [str(required_value(row, column, index)) for index, row in enumerate(rows)])


def split_by_last_digit(rows: Sequence[Row]) -> Division:
    """Return the parts `warm`, `train` and `heldout` by the last digit of a row's number, as `split_of` has them.

    A row whose question stands in another part already is left out.
    """
    return split_by_name(rows, [split_of(index) for index in range(len(rows))])


def split_by_name(rows: Sequence[Row], names: Sequence[str]) -> Division:
    """Return a division by a name for each row; a question stays in the part where it stands first."""
    home: dict[str, str] = {}
    parts: dict[str, list[int]] = {}
    left_out = 0
    for index, (row, name) in enumerate(zip(rows, names, strict=True)):
        if home.setdefault(question_key(row), name) == name:
            parts.setdefault(name, []).append(index)
        else:
            left_out += 1
    return Division(parts, left_out)


def linked_blocks(rows: Sequence[Row], group: str) -> list[list[int]]:
    """Return blocks of row numbers that must stay together: rows linked by an equal question or an equal group."""
    parent = list(range(len(rows)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = place = parent[parent[place]]
        return place

    first: dict[tuple[str, str], int] = {}
    for index, row in enumerate(rows):
        links = [("question", question_key(row))]
        if group:
            links.append(("group", repr(required_value(row, group, index))))
        for link in links:
            one, other = root(index), root(first.setdefault(link, index))
            parent[max(one, other)] = min(one, other)
    blocks: dict[int, list[int]] = {}
    for index in range(len(rows)):
        blocks.setdefault(root(index), []).append(index)
    return list(blocks.values())


def required_value(row: Row, column: str, index: int) -> Any:
    """Return what a row has at a column or path. Raises DataError naming the row."""
    value = value_at(row, column)
    if value is None:
        raise DataError(f"row {index} has no {column!r}; its columns: {', '.join(row)}")
    return value


def sorted_division(parts: dict[str, list[int]], rows: int) -> Division:
    """Return the division with the rows of each part in order. Raises DataError for a part without rows."""
    for name, found in parts.items():
        if not found:
            raise DataError(f"part {name!r} of {rows} rows would be empty; give it a larger share, or more rows")
        found.sort()
    return Division(parts)
