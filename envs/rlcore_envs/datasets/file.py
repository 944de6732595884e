"""Any local file of a known layout, or with its keys named."""

from __future__ import annotations

from rlcore.data import LazyRows, Rows, Split, load_rows
from rlcore.errors import DataError
from rlcore_envs.datasets.hub import hub_rows
from rlcore_envs.datasets.hub_clients import hub_id, is_hub_id
from rlcore_envs.datasets.prompt_format import Thinking
from rlcore_envs.datasets.row_filters import Duplicates
from rlcore_envs.datasets.row_options import RowOptions


def file(
    *,
    path: str = "",
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
    """Return rows of a jsonl (also .gz), json or parquet file of any layout of `rlcore.data.public_layouts`.

    Args:
        path: the file; or a hub's data set, as `hub` takes it (with which the other options of a hub can be set).
        split: `all`, or a part by the last digit of a row's place: `warm` (0 to 3), `train` (4 to 8), `heldout` (9).
        prompt_key: the column that holds the prompt (text or messages), for other layouts.
        answer_key: the column that holds the answer, or a path such as `extra_info.answer`.
        data_source: a source to give to every row, in place of what the file says.
        where: conditions that a row must meet: `level<=3`, `extra_info.split=train`, `subject!=Geometry`.
        max_characters: rows with a longer prompt are left out; 0 for none (`max_prompt_tokens` counts tokens).
        duplicates: `drop` keeps the first row of each question.
        system_prompt: a system message, in place of one in the file; makes a text prompt a conversation.
        template: a text with `{prompt}` where the prompt goes.
        chat: make a text prompt a conversation without a system message.
        thinking: `strip` takes `<think>...</think>` out of all answers but a conversation's last, `strip_all` of all.
        lazy: leave the rows in the file (jsonl or parquet) until they are drawn; it is gone through once.

    Raises:
        DataError: see `rlcore.data.load_rows` and `RowOptions`; or a row whose `data_source` is empty.
    """
    if not path:
        raise DataError("data=file needs data.path, a jsonl, json or parquet file on this machine")
    options = RowOptions(
        split=split,
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
        return hub_rows(hub_id(path), options, prompt_key=prompt_key, answer_key=answer_key, lazy=lazy)
    if lazy:
        return options.lazy(path, prompt_key=prompt_key, answer_key=answer_key)
    rows = load_rows(path, prompt_key=prompt_key, answer_key=answer_key)
    return options.rows(rows, where=f"data file {path!r}")
