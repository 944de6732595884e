"""A data set of the Hugging Face hub or of ModelScope."""

from __future__ import annotations

from dataclasses import replace

from rlcore.data import LazyRows, Rows, Split, to_rows
from rlcore.errors import DataError
from rlcore_envs.datasets.hub_clients import HubId, fetch, hub_id
from rlcore_envs.datasets.prompt_format import Thinking
from rlcore_envs.datasets.row_filters import Duplicates
from rlcore_envs.datasets.row_options import RowOptions


def hub(
    *,
    path: str = "",
    config: str = "",
    hub_split: str = "train",
    revision: str = "",
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
    """Return rows of a hub's data set, its layout told by its keys as a file's is.

    Args:
        path: `hf:OWNER/NAME` or `modelscope:OWNER/NAME`, each with an optional `@REVISION`.
        config: the hub's name of a configuration ("main"), where the data set has several.
        hub_split: the hub's name of a split, `test[:100]` too.
        revision: a branch, tag or commit, in place of one in the path.
        split: rlcore's own split of these rows, by the last digit of a row's place; see `file`.
        prompt_key: see `file`, as the options after it.
        answer_key: the column that holds the answer, or a path.
        data_source: a source to give to every row; without it, rows that have none get `OWNER/NAME`.
        where: conditions that a row must meet.
        max_characters: rows with a longer prompt are left out; 0 for none.
        duplicates: `drop` keeps the first row of each question.
        system_prompt: a system message.
        template: a text with `{prompt}` where the prompt goes.
        chat: make a text prompt a conversation.
        thinking: `strip` or `strip_all` take thinking out of given answers.
        lazy: leave the rows in the client's cache until they are drawn (hf only).

    Raises:
        DataError: what `rlcore_envs.datasets.hub_clients.fetch` and `file` raise.
    """
    if not path:
        raise DataError("data=hub needs data.path, hf:OWNER/NAME or modelscope:OWNER/NAME")
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
    keys = {"prompt_key": prompt_key, "answer_key": answer_key}
    return hub_rows(hub_id(path, revision=revision), options, config=config, hub_split=hub_split, lazy=lazy, **keys)


def hub_rows(
    hub_data: HubId,
    options: RowOptions,
    *,
    prompt_key: str,
    answer_key: str,
    lazy: bool,
    config: str = "",
    hub_split: str = "train",
) -> Rows | LazyRows:
    """Return the rows of a hub's data set; those without a source get the data set's name."""
    source = fetch(hub_data, config=config, split=hub_split)
    options = replace(options, default_source=hub_data.name)
    name = f"data {str(hub_data)!r}"
    if lazy:
        return options.lazy(source, where=name, prompt_key=prompt_key, answer_key=answer_key)
    rows = to_rows(list(source.scan()), prompt_key=prompt_key, answer_key=answer_key, where=name)
    return options.rows(rows, where=name)
