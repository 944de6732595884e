"""Any local file, or data set of a hub, of a known layout or with its keys named."""

from __future__ import annotations

import logging
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    hub_data = hub_id(path) if is_hub_id(path) else None
    if hub_data is None and (config or hub_split != "train"):
        raise DataError(f"data.config and data.hub_split are for the data set of a hub; data.path={path!r} is a file")
    selection = RowSelection(
        name=f"data {str(hub_data)!r}" if hub_data else f"data file {path!r}",
        default_source=hub_data.name if hub_data else "",
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
    if hub_data is None and not lazy:
        return selection.rows(iterate_rows(path))
    source = fetch(hub_data, config=config, split=hub_split) if hub_data else open_row_source(path)
    return selection.lazy(source) if lazy else selection.rows(source.scan())


@dataclass(kw_only=True)
class RowSelection:
    """One way through the raw rows of somebody's data: which are kept, and how they are formatted.

    `name` names the data in errors; `default_source` is given to rows of data without any `data_source`; the options
    are those of `file`. Once the rows are gone through, `columns` are those of all, and `counts` says why rows were
    left out.
    """

    name: str
    default_source: str = ""
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
    columns: dict[str, None] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._maker = RowMaker(prompt_key=self.prompt_key, answer_key=self.answer_key, where=self.name)

    def rows(self, raw: Iterable[Mapping[str, Any]]) -> Rows:
        """Return the rows. Raises DataError as `file` does."""
        kept = [row for _, row in self._select(raw)]
        # One public set has each of its 17 thousand questions a hundred times.
        repeats = len(kept) - len(set(map(question_key, kept))) if self.split == "all" else 0
        if repeats and self.duplicates == "keep":
            log.warning(
                "%s: %d of %d rows repeat the question of an earlier row, and each will be drawn as a prompt of its"
                " own; data.duplicates=drop keeps the first of each",
                self.name,
                repeats,
                len(kept),
            )
        return Rows(self._formatted(kept), counts=self.counts)

    def lazy(self, source: RowSource) -> LazyRows:
        """Return the same rows of a source that is gone through once, and then asked for each row as it is drawn.

        Eight bytes a row stay in memory; some 80 more while a split is taken or duplicates are dropped.
        """
        places = array("q", (place for place, _ in self._select(source.scan())))
        return LazyRows(
            source,
            np.array(places, dtype=np.int64),
            lambda place, raw: self._formatted([self._row(place, raw)])[0],
            columns=tuple(self.columns),
            counts=self.counts,
        )

    def _formatted(self, rows: Sequence[Row]) -> list[Row]:
        return format_prompts(
            rows, system_prompt=self.system_prompt, template=self.template, chat=self.chat, thinking=self.thinking
        )

    def _row(self, place: int, raw: Mapping[str, Any]) -> Row:
        row = self._maker.row(place, raw)
        if self.data_source:
            return {**row, "data_source": self.data_source}
        return {"data_source": self.default_source, **row} if self.default_source else row

    def _select(self, raw: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, Row]]:
        """Yield place and row of each that is kept; what can be judged only when all were seen is judged at the end."""
        row_filter = RowFilter(where=self.where, max_characters=self.max_characters, duplicates=self.duplicates)
        taker, sources = SplitTaker(self.split), SourceCheck()
        total = kept = 0
        for place, cells in enumerate(raw):
            row = self._row(place, cells)
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
                f"split {self.split!r} of {total} rows is empty: it takes places by their last digit; use split=all"
            )
        self.counts += Counter(taker.counts) + Counter(row_filter.counts)
