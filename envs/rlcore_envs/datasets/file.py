"""Any local file, or data set of a hub, of a known layout or with its keys named."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlcore.data import LazyRows, Row, Rows, Split, iterate_rows, question_key
from rlcore.data.layouts import RowMaker
from rlcore.data.lazy import RowSource, open_row_source
from rlcore.data.rows import SourceCheck
from rlcore.data.split import SplitTaker
from rlcore.errors import DataError
from rlcore_envs.datasets.hub_clients import fetch, hub_id, is_hub_id
from rlcore_envs.datasets.prompt_format import Thinking, format_prompts
from rlcore_envs.datasets.row_filters import Duplicates, RowFilter

log = logging.getLogger("rlcore")


def file(
    *,
    path: str = "",
    config: str = "",
    hub_split: str = "train",
    split: Split = "all",
    prompt_key: str = "",
    answer_key: str = "",
    data_source: str = "",
    where: tuple[str, ...] = (),
    max_characters: int = 0,
    duplicates: Duplicates = "keep",
    system_prompt: str = "",
    template: str = "{prompt}",
    chat: bool = False,
    thinking: Thinking = "keep",
    lazy: bool = False,
) -> Rows | LazyRows:
    """Return rows of a file (jsonl, json, parquet) or a hub's data set of any layout of `rlcore.data.public_layouts`.

    Args:
        path: the file (.jsonl also .gz); or a hub's data set, `hf:OWNER/NAME` or `modelscope:OWNER/NAME`, each with an
            optional `@REVISION` (a branch, tag or commit).
        config: the hub's name of a configuration ("main"), where its data set has several.
        hub_split: the hub's name of a split, `test[:100]` too.
        split: `all`, or a part by the last digit of a row's place: `warm` (0 to 3), `train` (4 to 8), `heldout` (9).
        prompt_key: the column that holds the prompt (text or messages), for other layouts.
        answer_key: the column that holds the answer, or a path such as `extra_info.answer`.
        data_source: a source to give to every row, in place of what the file says. Without it, rows of a hub's data set
            that has none get `OWNER/NAME`.
        where: conditions that a row must meet: `level<=3`, `extra_info.split=train`, `subject!=Geometry`.
        max_characters: rows with a longer prompt are left out; 0 for none (`max_prompt_tokens` counts tokens).
        duplicates: `drop` keeps the first row of each question.
        system_prompt: a system message, in place of one in the file; makes a text prompt a conversation.
        template: a text with `{prompt}` where the prompt goes.
        chat: make a text prompt a conversation without a system message.
        thinking: `strip` takes `<think>...</think>` out of all answers but a conversation's last, `strip_all` of all.
        lazy: leave the rows in the file (jsonl or parquet), or in the cache of the hub's client, until they are drawn;
            they are gone through once.

    Raises:
        DataError: no path; see `rlcore.data.iterate_rows`, `fetch`, `RowMaker` and `RowFilter`; a row without a source
            where others have one; or an empty split.
    """
    if not path:
        raise DataError(
            "data=file needs data.path: a jsonl, json or parquet file on this machine, hf:OWNER/NAME or"
            " modelscope:OWNER/NAME"
        )
    options = RowOptions(
        split=split,
        prompt_key=prompt_key,
        answer_key=answer_key,
        data_source=data_source,
        where=where,
        max_characters=max_characters,
        duplicates=duplicates,
        system_prompt=system_prompt,
        template=template,
        chat=chat,
        thinking=thinking,
    )
    if is_hub_id(path):
        data = hub_id(path)
        source, name = fetch(data, config=config, split=hub_split), f"data {str(data)!r}"
        return options.lazy(source, name, data.name) if lazy else options.rows(source.scan(), name, data.name)
    if config or hub_split != "train":
        raise DataError(f"data.config and data.hub_split are for the data set of a hub; data.path={path!r} is a file")
    name = f"data file {path!r}"
    return options.lazy(open_row_source(path), name) if lazy else options.rows(iterate_rows(path), name)


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """Which rows of somebody's data are kept, and how they are formatted; the options of `file` of the same names."""

    split: Split = "all"
    prompt_key: str = ""
    answer_key: str = ""
    data_source: str = ""
    where: tuple[str, ...] = ()
    max_characters: int = 0
    duplicates: Duplicates = "keep"
    system_prompt: str = ""
    template: str = "{prompt}"
    chat: bool = False
    thinking: Thinking = "keep"

    def rows(self, raw: Iterable[Mapping[str, Any]], name: str, default_source: str = "") -> Rows:
        """Return the rows under these options, with counts of those left out. Raises DataError as `file` does.

        `name` names the data in errors; `default_source` is given to rows of data without any `data_source`.
        """
        selection = RowSelection(self, name, default_source)
        kept = [row for _, row in selection.select(raw)]
        # One public set has each of its 17 thousand questions a hundred times.
        repeats = len(kept) - len(set(map(question_key, kept))) if self.split == "all" else 0
        if repeats and self.duplicates == "keep":
            log.warning(
                "%s: %d of %d rows repeat the question of an earlier row, and each will be drawn as a prompt of its"
                " own; data.duplicates=drop keeps the first of each",
                name,
                repeats,
                len(kept),
            )
        return Rows(self.formatted(kept), counts=selection.counts)

    def lazy(self, source: RowSource, name: str, default_source: str = "") -> LazyRows:
        """Return the same rows of a source that is gone through once, and then asked for each row as it is drawn.

        Eight bytes a row stay in memory; some 80 more while a split is taken or duplicates are dropped.
        """
        selection = RowSelection(self, name, default_source)
        places = array("q", (place for place, _ in selection.select(source.scan())))
        return LazyRows(
            source,
            np.array(places, dtype=np.int64),
            lambda place, raw: self.formatted([selection.row(place, raw)])[0],
            columns=tuple(selection.columns),
            counts=selection.counts,
        )

    def formatted(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows with their prompts put as the options say."""
        return format_prompts(
            rows, system_prompt=self.system_prompt, template=self.template, chat=self.chat, thinking=self.thinking
        )


class RowSelection:
    """One way through raw rows: makes each a row, keeps those that the options want, and judges the whole at the end.

    `columns` are those of all rows, `counts` says why rows were left out.
    """

    def __init__(self, options: RowOptions, name: str, default_source: str) -> None:
        self.options, self.name, self.default_source = options, name, default_source
        self.columns: dict[str, None] = {}
        self.counts: dict[str, int] = {}
        self._maker = RowMaker(prompt_key=options.prompt_key, answer_key=options.answer_key, where=name)

    def row(self, place: int, raw: Mapping[str, Any]) -> Row:
        """Return one raw row as a row, with its source. Raises DataError naming it."""
        row = self._maker.row(place, raw)
        if self.options.data_source:
            return {**row, "data_source": self.options.data_source}
        return {"data_source": self.default_source, **row} if self.default_source else row

    def select(self, raw: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, Row]]:
        """Yield place and row of each that is kept. Raises DataError as `file` does, the last of it after all rows."""
        wanted = self.options
        row_filter = RowFilter(where=wanted.where, max_characters=wanted.max_characters, duplicates=wanted.duplicates)
        taker, sources = SplitTaker(wanted.split), SourceCheck()
        total = kept = 0
        for place, cells in enumerate(raw):
            row = self.row(place, cells)
            total += 1
            sources.add(place, row)
            self.columns.update(dict.fromkeys(row))
            if taker.takes(place, row) and row_filter.passes(row):
                kept += 1
                yield place, row
        if not total:
            raise DataError(f"{self.name} is empty (0 rows)")
        self._maker.check()
        sources.check(self.name)
        row_filter.check(self.name)
        if not kept:
            raise DataError(
                f"split {wanted.split!r} of {total} rows is empty: it takes places by their last digit; use split=all"
            )
        for reason, count in (*taker.counts.items(), *row_filter.counts.items()):
            self.counts[reason] = self.counts.get(reason, 0) + count
