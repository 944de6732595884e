"""What the tasks made from a seed share: rows drawn until there are enough, each problem on one side of the split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal

from rlcore.data import DrawnRows, Row, split_of
from rlcore.errors import DataError
from rlcore_envs.datasets.prompt_format import format_prompts

TaskSplit = Literal["warm", "train", "heldout"]
SIGNS = "+-*"
# So many draws without a new row mean that there are no more, or next to none.
PATIENCE = 5000


def split_of_text(problem: str) -> TaskSplit:
    """Return the split that a problem belongs to, whatever seed drew it.

    The first eight bytes of the SHA-256 of its text as a big-endian integer decide, by its last digit as in every
    other data set: 9 is held out, 0 to 3 warm, else train.
    """
    return split_of(int.from_bytes(sha256(problem.encode()).digest()[:8], "big"))


def draw_rows(
    problems: Iterator[tuple[str, Row]],
    *,
    name: str,
    split: TaskSplit,
    rows: int,
    raise_: str = "",
    patience: int = PATIENCE,
    prompt_format: Mapping[str, Any],
) -> DrawnRows:
    """Return `rows` rows of a split, all with different prompts.

    `problems` yields the text that decides the split of each problem, and its row. `raise_` names the options of
    which a larger value gives more problems. `prompt_format` has options of `format_prompts`.

    Raises:
        DataError: fewer than one row asked for; and, as rows are drawn, more than there are problems.
    """
    draws = (
        (str(row["prompt"]), format_prompts([row], **prompt_format)[0]) if split_of_text(problem) == split else None
        for problem, row in problems
    )
    return drawn_rows(draws, name=name, split=split, rows=rows, raise_=raise_, patience=patience)


def drawn_rows(
    draws: Iterator[tuple[str, Row] | None], *, name: str, split: TaskSplit, rows: int, raise_: str, patience: int
) -> DrawnRows:
    """Return `rows` rows of `draws` (see `DrawnRows`). Raises DataError as `draw_rows` does."""
    if rows < 1:
        raise DataError(f"data={name}: rows={rows}; expected 1 or more")
    asked = f"data={name}: asked for {rows} rows of split {split!r}"
    ways = f" or raise {raise_}" if raise_ else ""
    too_few = f"{asked}, found {{found}} different ones; ask for fewer rows{ways}"
    return DrawnRows(draws, rows, patience=patience, too_few=too_few)


def check_range(name: str, **bounds: tuple[int, int, int]) -> None:
    """Raise DataError naming the first option, given as (value, least, most), that is out of its range."""
    for option, (value, least, most) in bounds.items():
        if not least <= value <= most:
            raise DataError(f"data={name}: {option}={value}; expected {least} to {most}")


def evaluate_terms(numbers: Sequence[int], signs: Sequence[str]) -> int:
    """Return the value of numbers with signs between them, products first."""
    total, term = 0, numbers[0]
    for sign, number in zip(signs, numbers[1:], strict=True):
        if sign == "*":
            term *= number
        else:
            total, term = total + term, number if sign == "+" else -number
    return total + term
