"""GSM8K: grade-school word problems of two to eight steps (Cobbe et al. 2021, arXiv:2110.14168)."""

from __future__ import annotations

import re

from rlcore.data import Row, Rows, Split
from rlcore_envs.datasets.published import Completion, format_rows, published_rows


def gsm8k(
    *,
    path: str = "",
    split: Split = "train",
    completion: Completion = "none",
    system_prompt: str = "",
    template: str = "{prompt}",
    chat: bool = False,
) -> Rows:
    """Return rows of GSM8K as published (jsonl or parquet of `question` and `answer`); targets such as "1200".

    Args:
        path: the published file; the split is taken within it.
        split: `warm`, `train` or `heldout` by the last digit of a row's place (0 to 3, 4 to 8, 9), or `all` (use it on
            the published test file).
        completion: `solution` gives each row the published way to the answer without its calculator marks, ending in
            `#### 12`; `answer` gives "#### 12".
        system_prompt: a system message; makes each prompt a conversation.
        template: a text with `{prompt}` where the problem goes.
        chat: make each prompt a conversation without a system message.
    """
    complete = {"none": None, "answer": answer, "solution": solution}[completion]
    columns = ("question", "answer")
    rows = published_rows(path, name="gsm8k", source="openai/gsm8k", columns=columns, complete=complete, lacks=mark)
    return format_rows(rows, split=split, system_prompt=system_prompt, template=template, chat=chat)


def mark(row: Row) -> str:
    """Return what a row without a marked answer lacks."""
    return "" if "####" in str(row["answer"]) else "a last line '#### N' in its answer"


def answer(row: Row) -> str:
    """Return the answer alone, marked as the data set marks it."""
    return f"#### {row['target']}"


def solution(row: Row) -> str:
    """Return the published solution without `<<48/2=24>>` marks, and the marked answer."""
    return f"{re.sub(r'<<[^>]*>>', '', row['solution'])}\n{answer(row)}"
