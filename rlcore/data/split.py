"""Warm start, training and held-out rows of one file: disjoint, by a rule that is written down here once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b, sha256
from typing import Literal

from rlcore.data.messages import text_of
from rlcore.data.rows import Row, Rows
from rlcore.errors import DataError

Split = Literal["warm", "train", "heldout", "all"]

IMAGES = ("images", "image", "videos", "audios")
"""Columns of what is shown beside a prompt."""


def split_of(index: int) -> Literal["warm", "train", "heldout"]:
    """Return the part of a row by its place in the file, from 0: last digit 9 heldout, 0 to 3 warm, else train."""
    digit = index % 10
    if digit == 9:
        return "heldout"
    return "warm" if digit < 4 else "train"


class SplitTaker:
    """Takes the rows of one split as they come, and leaves out questions that were seen before it.

    `text` of a row is its question, else its prompt. Eight bytes of each question's digest are kept, not the question.
    """

    def __init__(self, split: Split, text: Callable[[Row], str] | None = None) -> None:
        self.split = split
        self.text = text
        self.counts = {} if split == "all" else {"duplicates": 0}
        self._seen: set[bytes] = set()

    def takes(self, index: int, row: Row) -> bool:
        """Return whether the row at this place belongs to the split; call it once for each row, in order."""
        if self.split == "all":
            return True
        key = blake2b(question_key(row, self.text).encode(), digest_size=8).digest()
        if key in self._seen:
            self.counts["duplicates"] += 1
            return False
        self._seen.add(key)
        return split_of(index) == self.split


def split_rows(rows: Sequence[Row], split: Split, *, text: Callable[[Row], str] | None = None) -> Rows:
    """Return the rows of one split, in file order, with `counts["duplicates"]` dropped in the whole file.

    A row whose question (`text` of it, else its prompt) was seen earlier in the file, letters and digits alone
    compared, is dropped, so that no question stands on two sides of a split. Places are counted before dropping. "all"
    is the file as it is, duplicates too: a published test set keeps its published size.

    Raises:
        DataError: the split has no rows.
    """
    if split == "all":
        return Rows(rows)
    taker = SplitTaker(split, text)
    kept = [row for index, row in enumerate(rows) if taker.takes(index, row)]
    if not kept:
        raise DataError(
            f"split {split!r} of {len(rows)} rows is empty: it takes places by their last digit; use split=all"
        )
    return Rows(kept, counts=taker.counts)


def question_key(row: Row, text: Callable[[Row], str] | None = None) -> str:
    """Return what tells a row's question from others: its words and numbers, and its images, if it has any.

    "What is in the picture?" of two pictures is two questions.
    """
    words = normal_text(text(row) if text is not None else text_of(row["prompt"]))
    shown = [row[name] for name in IMAGES if row.get(name)]
    prompt = row["prompt"]
    if isinstance(prompt, list):
        shown += [m["content"] for m in prompt if isinstance(m.get("content"), list) and text is None]
    return words if not shown else f"{words} {sha256(repr(shown).encode()).hexdigest()}"


def normal_text(text: str) -> str:
    """Return the text with case, spacing and punctuation taken out, except what tells numbers apart (`.` `-` `+` `*`
    `/`).
    """
    kept = re.sub(r"(?<!\d)\.|\.(?!\d)|[^\w.+*/-]+", " ", text.casefold())
    return " ".join(kept.split())
