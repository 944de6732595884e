"""Right or wrong by the worth of an arithmetic expression: the rewards of Countdown and of the game of 24."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from rlcore.data import native, target_of
from rlcore_rewards.calling import bounded, checks_rows
from rlcore_rewards.form import END_TOKENS
from rlcore_rewards.numeric import parse_number

# An expression is what a model wrote: Python parses it and evaluates nothing. Its length bounds the depth of the
# recursion and the size of every number on the way.
LONGEST_EXPRESSION = 128  # characters
ANSWER = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)
# A number is written as Python writes it: 07 is none, nor are digits of other scripts.
TOKEN = re.compile(r"0(?![0-9])|[1-9][0-9]*|[-+*/()]", re.ASCII)
OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def check_numbers(data: Mapping[str, Any]) -> None:
    """Raise ValueError if the target, or one of the numbers to use, is no number."""
    for number in (target_of(data), *(data.get("numbers") or ())):
        parse_number(number)


@bounded
@checks_rows(check_numbers)
def expression_answer(completion: str, target: Any, numbers: Sequence[Any] | None = None) -> float:
    """Return 1.0 if the completion is an expression worth the target that uses each of `numbers` once, else 0.0.

    An expression has whole numbers, + - * / and round brackets, with the usual precedence; there is no sign before a
    number and no power. Spaces do not count. Worth is exact: 8/3*3 is 8. Dividing by zero is worth nothing. Without
    `numbers` any may be used. A bare number is an expression too.

    Args:
        completion: the whole answer; any other text in it makes it wrong.
        target: a number, or a text that is one.
        numbers: what may be used, each as often as it stands there; all of it must be.

    Raises:
        ValueError: the target, or one of `numbers`, is no number, so that no completion could be right.
    """
    value = parse_number(target)
    allowed = None if numbers is None else sorted(parse_number(number) for number in numbers)
    tokens = tokenize(completion)
    if tokens is None:
        return 0.0
    if allowed is not None and sorted(Fraction(token) for token in tokens if token.isdigit()) != allowed:
        return 0.0
    return float(evaluate(tokens) == value)


def tokenize(text: str) -> list[str] | None:
    """Return the numbers and signs of an expression, in order, or None if the text has anything else or is too long."""
    text = text.replace(" ", "")
    if len(text) > LONGEST_EXPRESSION:
        return None
    tokens = TOKEN.findall(text)
    # What the pattern passed over is missing here.
    return tokens if "".join(tokens) == text else None


def evaluate(tokens: Sequence[str]) -> Fraction | None:
    """Return the value of an expression; None if the tokens are no expression, or it divides by zero."""
    try:
        return tree_value(ast.parse("".join(tokens), mode="eval").body)
    except (SyntaxError, ZeroDivisionError):
        return None


def tree_value(node: ast.expr) -> Fraction:
    """Return the value of a syntax tree. Raises SyntaxError for anything but whole numbers and + - * /."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return Fraction(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return OPERATIONS[type(node.op)](tree_value(node.left), tree_value(node.right))
    raise SyntaxError("no whole number, sum or product")


@bounded
@checks_rows(lambda row: read_problem(target_of(row), row.get("numbers"), row.get("nums")))
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
