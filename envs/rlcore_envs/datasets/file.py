"""Any local file of a known layout, or with its keys named."""

from __future__ import annotations

from rlcore.data import Row, Rows, Split, load_rows, split_rows, worded
from rlcore.errors import DataError


def file(
    *,
    path: str = "",
    split: Split = "all",
    prompt_key: str = "",
    answer_key: str = "",
    data_source: str = "",
    system_prompt: str = "",
    template: str = "{prompt}",
    chat: bool = False,
) -> Rows:
    """Rows of a jsonl, json or parquet file, its layout told by its keys (see `rlcore.data.layouts`).

    Args:
        path: the file.
        split: `all`, or a part by the last digit of a row's place: `warm` (0 to 3), `train` (4 to 8), `heldout` (9).
        prompt_key: the column that holds the prompt (text or messages), for other layouts.
        answer_key: the column that holds the answer, or a path such as `extra_info.answer`.
        data_source: a source to give to every row, in place of what the file says.
        system_prompt: a system message, in place of one in the file; makes a text prompt a conversation.
        template: a wording with `{prompt}` where the prompt goes.
        chat: make a text prompt a conversation without a system message.

    Raises:
        DataError: see `rlcore.data.load_rows`; or a row whose `data_source` is empty.
    """
    if not path:
        raise DataError("data=file needs data.path, a jsonl, json or parquet file on this machine")
    rows = load_rows(path, prompt_key=prompt_key, answer_key=answer_key)
    if data_source:
        rows = [{**row, "data_source": data_source} for row in rows]
    check_sources(rows, path)
    part = split_rows(rows, split)
    return Rows(worded(part, system_prompt=system_prompt, template=template, chat=chat), counts=part.counts)


def check_sources(rows: list[Row], path: str) -> None:
    """Raise DataError naming the first row without a source in a file whose rows have one."""
    missing = [index for index, row in enumerate(rows) if not row.get("data_source")]
    if not missing or not any("data_source" in row for row in rows):
        return
    found = sorted({str(row["data_source"]) for row in rows if row.get("data_source")})
    raise DataError(
        f"data file {path!r}, row {missing[0]}: data_source is {rows[missing[0]].get('data_source')!r};"
        f" sources found: {', '.join(found) or 'none'}. Set data.data_source=NAME to give one to every row"
    )
