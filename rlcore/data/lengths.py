"""Prompts that are too long for the model or for the limit that a run sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rlcore.errors import DataError

TooLong = Literal["error", "left", "right", "middle", "filter"]
"""What becomes of a prompt over the limit: an error, its first, last or middle tokens cut off, or its row left out.

`left` cuts from the left (the end is kept), `right` from the right (the beginning is kept).
"""


def fit_prompt(prompt: Sequence[int], limit: int, *, too_long: TooLong, row: int | None = None) -> list[int] | None:
    """Return one prompt within the limit, or None if its row is to be left out. Raises DataError under `error`."""
    length = len(prompt)
    if length <= limit:
        return list(prompt)
    match too_long:
        case "filter":
            return None
        case "left":
            return list(prompt[length - limit :])
        case "right":
            return list(prompt[:limit])
        case "middle":
            head = (limit + 1) // 2
            return [*prompt[:head], *prompt[length - (limit - head) :]]
        case "error":
            named = "a prompt" if row is None else f"row {row}: its prompt"
            raise DataError(
                f"{named} has {length} tokens, more than max_prompt_tokens={limit}."
                " Raise the limit, or set long_prompts to left, right, middle or filter"
            )
    raise DataError(f"unknown long_prompts {too_long!r}; known: error, left, right, middle, filter")


def check_room(max_prompt_tokens: int, max_new_tokens: int, model_limit: int | None) -> None:
    """Raise DataError if the longest prompt and the longest response together do not fit into the model.

    `model_limit` is the model's number of positions, or None if it has no such limit.
    """
    if model_limit is not None and max_prompt_tokens + max_new_tokens > model_limit:
        raise DataError(
            f"max_prompt_tokens={max_prompt_tokens} and max_new_tokens={max_new_tokens} make"
            f" {max_prompt_tokens + max_new_tokens} tokens, more than the model's {model_limit}"
        )
