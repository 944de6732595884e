"""Rows of any known layout, or with their keys named, into one.

A layout is recognised by a row's keys (`rlcore.data.public_layouts`); `prompt_key` and `answer_key` name them for files
of no known layout. Every column of the file stays in the row, so a reward can ask for any of them by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlcore.data.chat import template_options
from rlcore.data.messages import CONVERSATIONS, check_messages, check_prompt, tidy_messages
from rlcore.data.public_layouts import LAYOUTS, TARGET_KEYS, PublicLayout, keep_target
from rlcore.data.readers import TOO_DEEP, explain_json_error, native, read_rows, reject_repeated_keys
from rlcore.data.rows import Row
from rlcore.errors import DataError, nearest

STRUCTURED = ("info", "extra_info", "metadata", "reward_model", "reward_spec", "responses_create_params", "messages")
"""Columns that hold an object or a list; some files write it as JSON text. So does `tools`, at the top of a row."""


def load_rows(path: str, *, prompt_key: str = "", answer_key: str = "") -> list[Row]:
    """Return the rows of a file in our layout. Raises DataError naming file and row; see `read_rows` and `to_rows`."""
    return to_rows(read_rows(path), prompt_key=prompt_key, answer_key=answer_key, where=f"data file {path!r}")


def to_rows(
    raw: Sequence[Mapping[str, Any]], *, prompt_key: str = "", answer_key: str = "", where: str = "data"
) -> list[Row]:
    """Return the rows in our layout: `prompt`, `target` as the file has it, and every column under its own name.

    `prompt_key` and `answer_key` (a key, or a path such as `extra_info.answer`) say where the two are; without them
    the layout is told by the keys. Types of answers are kept: a struct stays a dict, an int an int, a text a text even
    if it is JSON. Messages lose empty fields, and `tools_kwargs` the tools that are None; see `tidy`.

    Raises:
        DataError: no rows; a row of unknown layout (with the keys found and the layouts known), without the named key,
            with an unusable prompt, or without an answer where answers are to be had. The row is named by its number.
    """
    if not raw:
        raise DataError(f"{where} is empty (0 rows)")
    maker = RowMaker(prompt_key=prompt_key, answer_key=answer_key, where=where)
    rows = [maker.row(index, source) for index, source in enumerate(raw)]
    maker.check()
    return rows


class RowMaker:
    """Makes rows of one file one by one, and remembers what can be judged only when all were seen.

    `layouts` counts the rows of each layout by its name.
    """

    def __init__(self, *, prompt_key: str = "", answer_key: str = "", where: str = "data") -> None:
        self.prompt_key, self.answer_key, self.where = prompt_key, answer_key, where
        self.layouts: dict[str, int] = {}
        self._required = bool(answer_key)
        self._rows = 0
        self._unanswered: list[int] = []
        self._first: dict[str, int] = {}

    def row(self, index: int, source: Mapping[str, Any]) -> Row:
        """Return one row in our layout. Raises DataError naming it."""
        line = f"{self.where}, row {index}"
        try:
            cells = tidy(source)
            row = self._convert(cells, line, index)
            if any(isinstance(row.get(name), list) for name in CONVERSATIONS):
                template_options(row)  # raises for what no template takes
        except RecursionError as error:
            raise DataError(f"{line}: {TOO_DEEP}") from error
        except DataError as error:
            raise DataError(str(error) if str(error).startswith(line) else f"{line}: {error}") from None
        if self.answer_key:
            row["target"] = require_value(cells, self.answer_key, "answer", line)
        check_prompt(row["prompt"], line)
        for name in CONVERSATIONS[1:]:
            if isinstance(row.get(name), list):
                check_messages(row[name], f"{line}, {name}")
        self._rows += 1
        # What has a completion to learn from needs no answer, unless somebody says where answers are.
        supervised = not self.answer_key and any(row.get(name) for name in CONVERSATIONS[1:])
        if is_empty_answer(row.get("target")) and not supervised:
            self._unanswered.append(index)
        return row

    def _convert(self, cells: Mapping[str, Any], line: str, index: int) -> Row:
        if self.prompt_key:
            self._count("named keys", index)
            row: Row = {**cells, "prompt": require_value(cells, self.prompt_key, "prompt", line)}
            if isinstance(row["prompt"], list):
                row["prompt"] = tidy_messages(row["prompt"])
            keep_target(row, cells)
            return row
        layout = match_layout(cells, line)
        self._count(layout.name, index)
        self._required = self._required or layout.answered
        return layout.convert(cells)

    def _count(self, name: str, index: int) -> None:
        self.layouts[name] = self.layouts.get(name, 0) + 1
        self._first.setdefault(name, index)

    def check(self) -> None:
        """Raise DataError for a row without an answer where others have one, or without GSM8K's mark likewise."""
        if "GSM8K" in self.layouts and "question-answer" in self.layouts:
            raise DataError(
                f"{self.where}, row {self._first['question-answer']}: no '####' line in the answer, which"
                f" {self.layouts['GSM8K']} other rows have (GSM8K); for plain answers set data.prompt_key=question"
                " data.answer_key=answer"
            )
        missing = self._unanswered
        if not missing or (len(missing) == self._rows and not self._required):
            return
        looked = f"under {self.answer_key!r}" if self.answer_key else f"(looked for {', '.join(TARGET_KEYS)})"
        raise DataError(
            f"{self.where}, row {missing[0]}: no answer {looked}; {len(missing)} of {self._rows} rows have none"
        )


def tidy(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a raw row's cells in Python's own types, JSON text of `STRUCTURED` columns read, and emptiness of one
    form.

    Rows that came through pandas (they hold numpy arrays) have None for what only other rows have in a struct: it is
    dropped, as `read_rows` does. In any file a tool of `tools_kwargs` that is None is dropped, and so are fields of a
    message that are None.

    Raises:
        DataError: a text of a structured column that begins like JSON and is none, or names a key twice.
    """
    tabular = any(map(has_array, source.values()))
    cells = {str(key): native(value, drop_none=tabular) for key, value in source.items()}
    for name in (*STRUCTURED, "tools"):
        if isinstance(cells.get(name), str):
            cells[name] = from_json(cells[name], name)
    for name in CONVERSATIONS:
        cells |= {name: tidy_messages(parse_messages(cells[name]))} if isinstance(cells.get(name), list | str) else {}
    for holder in (cells, cells.get("extra_info")):
        if isinstance(holder, dict) and isinstance(holder.get("tools_kwargs"), dict):
            holder["tools_kwargs"] = {k: v for k, v in holder["tools_kwargs"].items() if v is not None}
    return cells


def has_array(value: Any) -> bool:
    """Return whether a numpy array is in a cell, however deep."""
    if isinstance(value, Mapping):
        return any(map(has_array, value.values()))
    if isinstance(value, list | tuple):
        return any(map(has_array, value))
    return hasattr(value, "dtype") and bool(getattr(value, "ndim", 0))


def parse_messages(value: Any) -> Any:
    """Return the messages of a JSON text; a value that is no such text is returned unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith("[{") or '"role"' not in value:
        return value
    try:
        messages = json.loads(value, object_pairs_hook=reject_repeated_keys)
    except DataError:
        raise  # JSON that says two things
    except ValueError:
        return value  # a question about JSON, not messages
    return messages if all(isinstance(message, dict) and "role" in message for message in messages) else value


def from_json(text: str, name: str) -> Any:
    """Return what a text says if it begins like an object or a list, else the text. Raises DataError for bad JSON."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text, object_pairs_hook=reject_repeated_keys)
    except json.JSONDecodeError as error:
        raise DataError(f"column {name} begins like JSON but is not: {error}") from error
    except ValueError as error:
        raise DataError(f"column {name}: {explain_json_error(error)}") from error


def match_layout(cells: Mapping[str, Any], line: str) -> PublicLayout:
    """Return the layout that a row's keys tell. Raises DataError with the keys found and the layouts known."""
    for layout in LAYOUTS:
        if layout.fits(cells):
            return layout
    # The keys of a layout without what the first of them should hold: its own conversion says what is wrong.
    for layout in LAYOUTS:
        if all(key in cells for key in layout.keys):
            return layout
    known = "; ".join(f"{layout.name} ({', '.join(layout.keys)})" for layout in LAYOUTS)
    raise DataError(
        f"{line}: unknown layout; keys found: {', '.join(cells) or 'none'}; known layouts: {known}."
        " For any other set data.prompt_key (and data.answer_key)"
    )


def require_value(cells: Mapping[str, Any], path: str, what: str, line: str) -> Any:
    """Return the value at a key, or at a path of keys. Raises DataError with the keys found and the nearest."""
    if path in cells:
        return cells[path]
    value: Any = cells
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            keys = [str(name) for name in value] if isinstance(value, Mapping) else []
            raise DataError(
                f"{line}: no {what} under {path!r}; keys found: {', '.join(keys) or 'none'}.{nearest(key, keys)}"
            )
        value = value[key]
    return value


def is_empty_answer(target: Any) -> bool:
    """Return whether a target says nothing: None, blank text, an empty list or dict, or NaN (a gap in a table)."""
    if isinstance(target, str):
        return not target.strip()
    return target is None or target in ([], {}) or target != target


def columns_of(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return every column that any of the rows has, in the order of their first appearance."""
    return tuple(dict.fromkeys(name for row in rows for name in row))
