"""What the published data sets share: a path that must be set, a check of the layout, split and format of prompts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from rlcore.data import Row, Rows, Split, load_rows, split_rows
from rlcore.errors import DataError
from rlcore_envs.datasets.prompt_format import format_prompts

Completion = Literal["none", "answer", "solution"]
"""What a row's `completion` is, for supervised training: none, the answer alone, or the way to it and the answer."""


def published_rows(
    path: str,
    *,
    name: str,
    source: str,
    columns: tuple[str, ...],
    complete: Callable[[Row], str] | None,
    lacks: Callable[[Row], str] = lambda row: "",
) -> list[Row]:
    """Return the rows of a published file, each with its source and, if `complete` is given, a completion.

    `lacks` says what a row with the right columns has not got, or nothing.

    Raises:
        DataError: no path, or a file of another data set (with the keys found).
    """
    if not path:
        raise DataError(f"data={name} needs data.path, the published file on this machine")
    rows = load_rows(path)
    for index, row in enumerate(rows):
        missing = [column for column in columns if column not in row]
        if missing:
            raise DataError(
                f"data file {path!r}, row {index}: not a row of {name}, which has {', '.join(columns)}; keys found:"
                f" {', '.join(key for key in row if key != 'target')}. For files of other layouts use data=file"
            )
        if lacking := lacks(row):
            raise DataError(
                f"data file {path!r}, row {index}: not a row of {name}, which has {lacking}. For files of other layouts"
                " use data=file"
            )
        row["data_source"] = source
        if complete is not None:
            row["completion"] = complete(row)
    return rows


def format_rows(rows: list[Row], *, split: Split, system_prompt: str, template: str, chat: bool) -> Rows:
    """Return the rows of a split (told apart by the bare question), formatted for the model; counts kept."""
    part = split_rows(rows, split)
    return Rows(format_prompts(part, system_prompt=system_prompt, template=template, chat=chat), counts=part.counts)
