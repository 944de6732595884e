"""The row that every part of rlcore sees, whatever file it came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

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
