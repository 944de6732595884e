"""SVAMP: one-step and two-step word problems over small numbers (Patel et al. 2021, arXiv:2103.07191)."""

from __future__ import annotations

import re

from rlcore.data import Row, Rows, Split
from rlcore_envs.datasets.published import Completion, format_rows, published_rows


def svamp(
    *,
    path: str = "",
    split: Split = "train",
    completion: Completion = "none",
    system_prompt: str = "",
    template: str = "{prompt}",
    chat: bool = False,
) -> Rows:
    """Return rows of SVAMP as published (json list of `Body`, `Question`, `Equation`, `Answer`); targets such as "51".

    Args:
        path: the published file.
        split: `warm`, `train` or `heldout` by the last digit of a row's place (0 to 3, 4 to 8, 9), or `all`.
        completion: `solution` gives each row the completion "76 - 25 = 51", `answer` "51".
        system_prompt: a system message; makes each prompt a conversation.
        template: a text with `{prompt}` where the problem goes.
        chat: make each prompt a conversation without a system message.
    """
    complete = {"none": None, "answer": answer, "solution": solution}[completion]
    columns = ("Body", "Question", "Equation", "Answer")
    rows = published_rows(path, name="svamp", source="svamp", columns=columns, complete=complete)
    return format_rows(rows, split=split, system_prompt=system_prompt, template=template, chat=chat)


def answer(row: Row) -> str:
    """Return the answer alone."""
    return str(row["target"])


def solution(row: Row) -> str:
    """Return the equation and its result: `( 76.0 - 25.0 )` becomes "76 - 25 = 51"."""
    return f"{clean_equation(str(row['Equation']))} = {row['target']}"


def clean_equation(equation: str) -> str:
    """Return an equation as one would write it: no brackets around the whole, none padded, 76.0 as 76."""
    text = re.sub(r"(\d)\.0+(?!\d)", r"\1", equation.strip())
    text = re.sub(r"\(\s+", "(", re.sub(r"\s+\)", ")", text))
    return text[1:-1].strip() if text.startswith("(") and closes_last(text) else text


def closes_last(text: str) -> bool:
    """Return whether the bracket that opens a text is closed by its last character and no earlier one."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place == len(text) - 1
    return False
