"""Rows of a file as samples that a reward is called with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.data import read_rows, text_of
from rlcore.data.layouts import require_value, tidy
from rlcore.data.public_layouts import LAYOUTS
from rlcore.errors import DataError, nearest
from rlcore.execute.grader import prompt_messages
from rlcore.protocols import Sample


def read_samples(path: str | Path, *, answer_key: str = "", completion_key: str = "") -> list[Sample]:
    """Return the samples of a file: its rows' `completion`, with `prompt` (text or messages) and every column as data.

    A row without `target` and `ground_truth` is read by its layout, as `rlcore.data.to_rows` reads it, if it is of a
    known one: its target and prompt come from there. Of a completion of messages the assistant's texts are taken.

    answer_key, completion_key: a column, or a path such as `extra_info.answer`, for files that have other names.

    Raises:
        DataError: no such file, an empty one, a row without what a key names, whose columns are not what its layout
            says, or without a completion that is text or messages; with its number, from 0.
    """
    samples = []
    for index, source in enumerate(read_rows(path)):
        line = f"{path}, row {index}"
        try:
            completion = require_value(tidy(source), completion_key, "completion", line) if completion_key else None
            columns = {name: value for name, value in source.items() if name != "completion"}
            row = with_target(columns, answer_key, line)
        except DataError as error:
            raise DataError(str(error) if str(error).startswith(line) else f"{line}: {error}") from None
        if not completion_key and "completion" not in source:
            raise DataError(
                f"{line}: there is no completion; name it with --completion-key. Its columns: {', '.join(source)}."
                f"{nearest('completion', source)}"
            )
        samples.append(to_sample(row, assistant_text(completion if completion_key else source["completion"], line)))
    return samples


def with_target(row: dict[str, Any], answer_key: str, line: str) -> dict[str, Any]:
    """Return a row with its target and prompt: as they stand there, or as its layout has them.

    answer_key: the column or path of the target, if not empty; the prompt has no key.
    """
    complete = "prompt" in row if answer_key else "target" in row or "ground_truth" in row
    layout = None if complete else next((layout for layout in LAYOUTS if layout.fits(row)), None)
    converted = row if layout is None else layout.convert(tidy(row))
    if not answer_key:
        return converted
    answer = require_value(tidy(row), answer_key, "answer", line)
    return {**{name: value for name, value in converted.items() if name != "ground_truth"}, "target": answer}


def assistant_text(completion: Any, line: str) -> str:
    """Return a completion as text; of messages what the assistant says. Raises DataError for anything else."""
    if isinstance(completion, str):
        return completion
    messages = completion if isinstance(completion, list) else []
    turns = [message for message in messages if isinstance(message, Mapping) and message.get("role") == "assistant"]
    if not turns:
        kind = (
            "a list without a message of the assistant" if isinstance(completion, list) else type_in_words(completion)
        )
        raise DataError(f"{line}: completion is {kind}; expected text, or messages with the assistant's")
    return text_of(turns)


def type_in_words(value: Any) -> str:
    """Return what a value of a file is, in a word or two."""
    words = {str: "text", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return "null" if value is None else words.get(type(value), type(value).__name__)


def to_sample(row: dict[str, Any], completion: str) -> Sample:
    """Return a row as what a reward is called with; a prompt of messages also as their texts, one below another."""
    prompt = row.get("prompt") or ""
    messages = prompt_messages(prompt)
    texts = [str(message.get("content") or "") for message in messages or () if isinstance(message, dict)]
    return Sample(prompt if isinstance(prompt, str) else "\n\n".join(texts), completion, messages, row)
