"""Rows left out on purpose, each with the reason that it was counted under."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rlcore.data import Row, Rows, describe_counts, question_key, text_of, value_at
from rlcore.errors import DataError, nearest

Duplicates = Literal["keep", "drop"]
COMPARISON = re.compile(r"(?P<column>[^=<>!]+?)\s*(?P<sign>!=|<=|>=|=|<|>)\s*(?P<value>.*)", re.DOTALL)
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Condition(NamedTuple):
    """A comparison that a row must pass: `level<=3`, `extra_info.split=train`, `subject!=Geometry`.

    A value compares as the number, true, false or null that it is written as, and with `=` and `!=` also as text.
    """

    text: str
    column: str
    sign: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Return the condition that a text writes. Raises DataError if the text is no comparison."""
        match = COMPARISON.fullmatch(text.strip())
        if match is None:
            raise DataError(f"data.where {text!r} is no comparison; write column=value, with {' '.join(SIGNS)}")
        return cls(text.strip(), match["column"].strip(), match["sign"], match["value"])

    def value_in(self, row: Mapping[str, Any]) -> Any:
        """Return the value that is compared, or None if the row has none."""
        return value_at(row, self.column)

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row passes. What cannot be compared in size (a text with a number, a gap) does not."""
        found, wanted = self.value_in(row), self.value
        if self.sign in ("=", "!="):
            return (found == parse_value(wanted) or (isinstance(found, str) and found == wanted)) == (self.sign == "=")
        try:
            return SIGNS[self.sign](found, parse_value(wanted))
        except TypeError:
            return False


def parse_value(text: str) -> Any:
    """Return a text as JSON reads it, or the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


class RowFilter:
    """Passes rows one by one, and counts those left out by the reason, the first that applies.

    `where`: conditions that a row must pass; `max_characters`: of its prompt, 0 for any; `duplicates="drop"`: the first
    row of each question is kept, letters and digits alone compared (images too, if there are any).
    """

    def __init__(self, *, where: Sequence[str] = (), max_characters: int = 0, duplicates: Duplicates = "keep") -> None:
        if max_characters < 0:
            raise DataError(f"data.max_characters={max_characters}; expected 0 (any length) or more")
        self.conditions = tuple(map(Condition.parse, where))
        self.max_characters, self.drop_duplicates = max_characters, duplicates == "drop"
        self.counts: dict[str, int] = {}
        self._seen: set[str] = set()
        self._met: set[str] = set()
        self._columns: set[str] = set()
        self._rows = 0

    def passes(self, row: Row) -> bool:
        """Return whether a row is kept."""
        self._rows += 1
        reason = self._reason(row)
        if reason:
            self.counts[reason] = self.counts.get(reason, 0) + 1
        return not reason

    def _reason(self, row: Row) -> str:
        if self.conditions:
            self._columns.update(row)
            self._met.update(c.column for c in self.conditions if c.value_in(row) is not None)
        failed = next((condition for condition in self.conditions if not condition.holds(row)), None)
        if failed is not None:
            return f"not {failed.text}"
        if self.max_characters and len(text_of(row["prompt"])) > self.max_characters:
            return f"prompts over {self.max_characters} characters"
        if self.drop_duplicates:
            key = question_key(row)
            if key in self._seen:
                return "duplicates"
            self._seen.add(key)
        return ""

    def check(self, where: str) -> None:
        """Raise DataError for a condition on a column that no row has, or if no row is left."""
        for condition in self.conditions:
            if self._rows and condition.column not in self._met:
                raise DataError(
                    f"{where}: data.where {condition.text!r} asks for {condition.column!r}, which no row has;"
                    f" columns: {', '.join(sorted(self._columns))}.{nearest(condition.column, self._columns)}"
                )
        if self._rows and sum(self.counts.values()) == self._rows:
            raise DataError(f"{where}: no row is left of {self._rows}; left out: {describe_counts(self.counts)}")


def filter_rows(
    rows: Iterable[Row],
    *,
    where: Sequence[str] = (),
    max_characters: int = 0,
    duplicates: Duplicates = "keep",
    name: str = "data",
) -> Rows:
    """Return the rows that pass (see `RowFilter`), in order, with counts of those left out by reason.

    Raises:
        DataError: a condition that is none or on a column that no row has, or no row is left.
    """
    row_filter = RowFilter(where=where, max_characters=max_characters, duplicates=duplicates)
    kept = [row for row in rows if row_filter.passes(row)]
    row_filter.check(name)
    return Rows(kept, counts=row_filter.counts)
