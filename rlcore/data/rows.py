"""The row that every part of rlcore sees, whatever file it came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, overload

from rlcore.errors import DataError

Message = Mapping[str, Any]
Prompt = str | list[dict[str, Any]]
Row = dict[str, Any]
"""`prompt` (text, or messages with `role` and `content`), and as the data has them `target`, `completion` (text, for
supervised training), `messages` (a whole conversation, likewise), `data_source`, `extra_info`, and any other column."""


def target_of(row: Mapping[str, Any]) -> Any:
    """Return what a row is graded against: its `target`, else its `ground_truth`; None without both."""
    return row.get("target", row.get("ground_truth"))


class Rows(list[Row]):
    """Rows, with `counts` of what was done on the way to them (`duplicates` dropped)."""

    def __init__(self, rows: Iterable[Row] = (), *, counts: Mapping[str, int] | None = None) -> None:
        super().__init__(rows)
        self.counts: dict[str, int] = dict(counts or {})


class DrawnRows(Sequence[Row]):
    """Rows made at random, drawn as they are asked for and then kept.

    `draws` yields each row with a key that no two rows share, or None for a draw that gave no row. After `patience`
    draws without a new row there are no more: a row beyond raises DataError with the message `too_few`, in which
    `{found}` is how many there are.
    """

    def __init__(self, draws: Iterator[tuple[str, Row] | None], size: int, *, patience: int, too_few: str) -> None:
        self._draws, self._size, self._patience, self._too_few = draws, size, patience, too_few
        self._keys: set[str] = set()
        self.drawn: list[Row] = []

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        """Return one row, or a list of those of a slice."""
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        while len(self.drawn) <= place:
            self.drawn.append(self._draw())
        return self.drawn[place]

    def _draw(self) -> Row:
        for draw in islice(self._draws, self._patience):
            if draw is not None:
                key, row = draw
                if key not in self._keys:
                    self._keys.add(key)
                    return row
        raise DataError(self._too_few.replace("{found}", str(len(self.drawn))))


def value_at(row: Mapping[str, Any], path: str) -> Any:
    """Return what a row has at a column, or at a path of keys such as `extra_info.level`; None if nothing."""
    if path in row:
        return row[path]
    value: Any = row
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def describe_counts(counts: Mapping[str, int]) -> str:
    """Return counts of rows in words, "12 duplicates, 3 not level<=3"; nothing for zeros."""
    return ", ".join(f"{count} {reason}" for reason, count in counts.items() if count)


@dataclass
class SourceCheck:
    """Looks for rows without a `data_source` in data whose other rows have one: a reward that goes by it needs it."""

    missing: list[int] = field(default_factory=list)
    first: object = None
    found: dict[str, None] = field(default_factory=dict)
    named: bool = False

    def add(self, index: int, row: Row) -> None:
        """Look at one row."""
        source = row.get("data_source")
        self.named = self.named or "data_source" in row
        if isinstance(source, str) and source.strip():
            self.found[source] = None
        elif not self.missing:
            self.missing.append(index)
            self.first = source

    def check(self, where: str) -> None:
        """Raise DataError naming the first row without one."""
        if not self.missing or not self.named:
            return
        raise DataError(
            f"{where}, row {self.missing[0]}: data_source is {self.first!r}; sources found:"
            f" {', '.join(sorted(self.found)) or 'none'}. Set data.data_source=NAME to give one to every row"
        )
