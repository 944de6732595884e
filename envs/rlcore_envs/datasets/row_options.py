"""What is done to the rows of a file or a hub between reading and drawing: source, split, filters, prompt format."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlcore.data import LazyRows, Row, Rows, Split, question_key, split_rows
from rlcore.data.layouts import RowMaker
from rlcore.data.lazy import RowSource, open_row_source
from rlcore.data.rows import SourceCheck
from rlcore.data.split import SplitTaker
from rlcore.errors import DataError
from rlcore_envs.datasets.prompt_format import Thinking, format_prompts
from rlcore_envs.datasets.row_filters import Duplicates, RowFilter, filter_rows

log = logging.getLogger("rlcore")


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """Which rows are kept, and how they are formatted: the options that every data set of somebody's rows has.

    `default_source` is given to rows of data without any `data_source`.
    """

    split: Split = "all"
    data_source: str = ""
    default_source: str = ""
    where: tuple[str, ...] = ()
    max_characters: int = 0
    duplicates: Duplicates = "keep"
    system_prompt: str = ""
    template: str = "{prompt}"
    chat: bool = False
    thinking: Thinking = "keep"

    def rows(self, rows: Sequence[Row], *, where: str) -> Rows:
        """Return the rows under these options, with counts of those left out; `where` names the data in errors.

        Raises:
            DataError: a row without a source where others have one, an empty split, or as `filter_rows` does.
        """
        rows = [self._with_source(row) for row in rows]
        sources = SourceCheck()
        for index, row in enumerate(rows):
            sources.add(index, row)
        sources.check(where)
        part = split_rows(rows, self.split)
        kept = filter_rows(
            part, where=self.where, max_characters=self.max_characters, duplicates=self.duplicates, name=where
        )
        # One public set has each of its 17 thousand questions a hundred times.
        repeats = len(kept) - len(set(map(question_key, kept))) if self.split == "all" else 0
        if repeats and self.duplicates == "keep":
            log.warning(
                "%s: %d of %d rows repeat the question of an earlier row, and each will be drawn as a prompt of its"
                " own; data.duplicates=drop keeps the first of each",
                where,
                repeats,
                len(kept),
            )
        return Rows(self._formatted(kept), counts=add_counts(part.counts, kept.counts))

    def lazy(self, data: str | RowSource, *, where: str = "", prompt_key: str = "", answer_key: str = "") -> LazyRows:
        """Return the same rows of a jsonl or parquet file or another source, gone through once, then read as drawn.

        Eight bytes a row stay in memory; some 80 more while a split is taken or duplicates are dropped.

        Raises:
            DataError: as `rows`, `read_rows` and `to_rows` do, before any row is drawn.
        """
        where = where or f"data file {data!r}"
        source = open_row_source(data) if isinstance(data, str) else data
        maker = RowMaker(prompt_key=prompt_key, answer_key=answer_key, where=where)
        row_filter = RowFilter(where=self.where, max_characters=self.max_characters, duplicates=self.duplicates)
        sources, places = SourceCheck(), array("q")
        columns: dict[str, None] = {}
        taker = SplitTaker(self.split)
        total = 0
        for index, raw in enumerate(source.scan()):
            row = self._with_source(maker.row(index, raw))
            total += 1
            sources.add(index, row)
            columns.update(dict.fromkeys(row))
            if taker.takes(index, row) and row_filter.passes(row):
                places.append(index)
        if not total:
            raise DataError(f"{where} is empty (0 rows)")
        maker.check()
        sources.check(where)
        row_filter.check(where)
        if not places:
            raise DataError(f"split {self.split!r} of {total} rows is empty: it takes places by their last digit")
        return LazyRows(
            source,
            np.array(places, dtype=np.int64),
            lambda index, raw: self._formatted([self._with_source(maker.row(index, raw))])[0],
            columns=tuple(columns),
            counts=add_counts(taker.counts, row_filter.counts),
        )

    def _with_source(self, row: Row) -> Row:
        if self.data_source:
            return {**row, "data_source": self.data_source}
        return {"data_source": self.default_source, **row} if self.default_source else row

    def _formatted(self, rows: Sequence[Row]) -> list[Row]:
        return format_prompts(
            rows, system_prompt=self.system_prompt, template=self.template, chat=self.chat, thinking=self.thinking
        )


def add_counts(*counts: dict[str, int]) -> dict[str, int]:
    """Return the sums of counts by reason."""
    names = dict.fromkeys(name for some in counts for name in some)
    return {name: sum(some.get(name, 0) for some in counts) for name in names}
