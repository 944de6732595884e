"""Countdown as language models answer it: an expression in answer tags, after any amount of thinking aloud."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlcore.data import native, target_of
from rlcore_answers.arithmetic import check_numbers, expression_answer
from rlcore_rewards.calling import bounded, checks_rows
from rlcore_rewards.form import END_TOKENS

ANSWER = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)


def check_problem(data: Mapping[str, Any]) -> None:
    """Raise ValueError if the target or a number is none, or there are no numbers to use."""
    read_problem(target_of(data), data.get("numbers"), data.get("nums"))


@bounded
@checks_rows(check_problem)
def countdown(
    completion: str, target: Any, numbers: Sequence[Any] | None = None, nums: Sequence[Any] | None = None
) -> dict[str, Any]:
    r"""Return 1.0 if the last `<answer>` holds an expression worth the target that uses each number once, else 0.0.

    Without tags the whole completion is the answer. "= 22" behind the expression is passed over, right or wrong;
    `\times`, `\div`, `x` between numbers, and the signs of typography count as * and /.

    Args:
        completion: what the model wrote.
        target: a number, or `{"target": 22, "numbers": [3, 5, 7]}` as verl's rows have it.
        numbers: what may be used, each as often as it stands there.
        nums: the same under the name that the raw files have.

    Raises:
        ValueError: the target or one of the numbers is no number, or there are none.
    """
    wanted, allowed = read_problem(target, numbers, nums)
    for token in END_TOKENS:
        completion = completion.partition(token)[0]
    found = ANSWER.findall(completion) or ([] if "<answer>" in completion else [completion])
    if not found:
        return {"score": 0.0, "extracted": None}
    answer = clean_expression(found[-1])
    return {"score": expression_answer(answer, wanted, allowed), "extracted": answer or None}


def read_problem(target: Any, numbers: Sequence[Any] | None, nums: Sequence[Any] | None) -> tuple[Any, Sequence[Any]]:
    """Return the target and the numbers of a row. Raises ValueError where one is missing or no number."""
    target, numbers, nums = native(target), native(numbers), native(nums)
    if isinstance(target, Mapping):
        numbers, target = target.get("numbers", target.get("nums", numbers)), target.get("target")
    allowed = nums if numbers is None else numbers
    if allowed is None or not len(allowed):
        raise ValueError("there are no numbers to use: neither in the target nor in a column 'numbers' or 'nums'")
    check_numbers({"target": target, "numbers": allowed})
    return target, allowed


def clean_expression(answer: str) -> str:
    """Return an expression in the signs that are read: one line, no mathematics delimiters, no result behind it."""
    text = answer.strip().strip("$").replace("\\(", "").replace("\\)", "").partition("=")[0]
    for sign, read in (("\\times", "*"), ("\\cdot", "*"), ("\\div", "/"), ("\u00d7", "*"), ("\u00f7", "/")):
        text = text.replace(sign, read)
    text = text.replace("\u2212", "-").replace("[", "(").replace("]", ")")
    return " ".join(re.sub(r"(?<=[0-9) ])x(?=[0-9( ])", "*", text).split())
