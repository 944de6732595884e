"""The row that every part of rlcore sees, whatever file it came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Message = Mapping[str, Any]
Prompt = str | list[dict[str, Any]]
Row = dict[str, Any]
"""`prompt` (text, or messages with `role` and `content`), and as the data has them `target`, `completion` (text, for
supervised training), `messages` (a whole conversation, likewise), `data_source`, `extra_info`, and any other column."""


def target_of(row: Mapping[str, Any]) -> Any:
    """What a row is graded against, under either of its names: `target`, else `ground_truth`; None without both."""
    return row.get("target", row.get("ground_truth"))


class Rows(list[Row]):
    """Rows, with `counts` of what was done on the way to them (`duplicates` dropped)."""

    def __init__(self, rows: Iterable[Row] = (), *, counts: Mapping[str, int] | None = None) -> None:
        super().__init__(rows)
        self.counts: dict[str, int] = dict(counts or {})
