"""Figures of a data set before anything trains on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlcore.data.layouts import RowMaker, is_empty_answer
from rlcore.data.messages import text_of
from rlcore.data.rows import Row, SourceCheck
from rlcore.data.split import question_key
from rlcore.errors import DataError

PERCENTILES = (0, 5, 50, 95, 99, 100)
SHOWN_ERRORS = 5
MOST_LISTED = 20
"""Sources and types of a column that are listed, the most frequent first."""


@dataclass
class DataReport:
    """Figures of rows that are read once; only the `first` few rows are kept.

    `count_tokens` gives the length of a row's prompt in tokens; `limit` is one in tokens, or in characters without it.
    """

    maker: RowMaker
    count_tokens: Callable[[Row], int] | None = None
    limit: int = 0
    first_rows: int = 3
    rows: int = 0
    unanswered: int = 0
    over_limit: int = 0
    repeats: int = 0
    contradictions: int = 0
    unusable: int = 0
    errors: list[str] = field(default_factory=list)
    first: list[Row] = field(default_factory=list)
    types: dict[str, Counter[str]] = field(default_factory=dict)
    sources: Counter[str] = field(default_factory=Counter)
    characters: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    _sources: SourceCheck = field(default_factory=SourceCheck)
    _answers: dict[int, int] = field(default_factory=dict)

    def read(self, raw: Iterable[Mapping[str, Any]], *, ready: bool = False) -> DataReport:
        """Read raw rows of a file, or with `ready` the rows of a data set, and return the report itself.

        A row that cannot be used is counted, and reading goes on. An error that ends the reading of a file, such as
        a line that is not JSON, is the last of `errors`.
        """
        rows = iter(raw)
        while True:
            try:
                source = next(rows, None)
            except DataError as error:
                self.unusable += 1
                self.errors.append(str(error))
                return self
            if source is None:
                break
            self.rows += 1
            try:
                row = dict(source) if ready else self.maker.row(self.rows - 1, source)
            except DataError as error:
                self.unusable += 1
                if len(self.errors) < SHOWN_ERRORS:
                    self.errors.append(str(error))
                continue
            self._add(row)
        if not ready:
            for check in (self.maker.check, lambda: self._sources.check(self.maker.where)):
                try:
                    check()
                except DataError as error:
                    self.errors.append(str(error))
        return self

    def _add(self, row: Row) -> None:
        if len(self.first) < self.first_rows:
            self.first.append(row)
        for name, value in row.items():
            self.types.setdefault(name, Counter())[describe_type(value)] += 1
        self._sources.add(self.rows - 1, row)
        if "data_source" in row:
            self.sources[str(row["data_source"])] += 1
        self.unanswered += is_empty_answer(row.get("target"))
        length = len(text_of(row["prompt"]))
        self.characters.append(length)
        if self.count_tokens is not None:
            length = self.count_tokens(row)
            self.tokens.append(length)
        self.over_limit += bool(self.limit) and length > self.limit
        # Hashes, so that a question costs the same however long it is; within one process they are stable.
        key, answer = hash(question_key(row)), hash(repr(row.get("target")))
        if key in self._answers:
            self.repeats += 1
            self.contradictions += self._answers[key] != answer
        self._answers.setdefault(key, answer)

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain values; percentiles are of prompts, types are counted if a column has several."""
        return {
            "rows": self.rows,
            "layouts": dict(self.maker.layouts),
            "columns": {name: dict(found.most_common(MOST_LISTED)) for name, found in self.types.items()},
            "sources": dict(self.sources.most_common(MOST_LISTED)),
            "sources_found": len(self.sources),
            "without_answer": self.unanswered,
            "repeated_questions": self.repeats,
            "repeated_with_another_answer": self.contradictions,
            "prompt_characters": percentiles(self.characters),
            "prompt_tokens": percentiles(self.tokens),
            "limit": self.limit or None,
            "over_limit": self.over_limit if self.limit else None,
            "unusable": self.unusable,
            "errors": list(self.errors),
        }


def percentiles(lengths: list[int]) -> dict[str, int] | None:
    """Return lengths at `PERCENTILES` (the nearest that occurs), or None of none."""
    if not lengths:
        return None
    found = np.percentile(np.asarray(lengths), PERCENTILES, method="nearest")
    return {f"p{share}": int(value) for share, value in zip(PERCENTILES, found, strict=True)}


def describe_type(value: Any) -> str:
    """Return a value's type in words: `text`, `integer`, `messages`, `list of text`, `object (a, b)`, `bytes`."""
    names = {bool: "true or false", int: "integer", float: "number", str: "text", bytes: "bytes"}
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        keys = ", ".join(map(str, list(value)[:8]))
        return f"object ({keys}{', ...' if len(value) > 8 else ''})"
    if isinstance(value, list):
        if value and all(isinstance(item, Mapping) and "role" in item for item in value):
            return "messages"
        kinds = sorted({describe_type(item) for item in value})
        return f"list of {kinds[0]}" if len(kinds) == 1 else "list of several types" if kinds else "empty list"
    return names.get(type(value), type(value).__name__)
