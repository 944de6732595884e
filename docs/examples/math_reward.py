"""A reward of one's own, whole: use it as `reward=docs/examples/math_reward.py:compute_math_reward`.

The file needs nothing of rlcore. A reward is any function that takes what it needs by name: the completion as
`solution_str` or `completion`, the answer as `ground_truth` or `target`, any column of the data by its own name.
"""

from __future__ import annotations

import re
from fractions import Fraction

TAGS = ("<think>", "</think>", "<answer>", "</answer>")
FORM = re.compile(r"\s*<think>(.*)</think>\s*<answer>(.*)</answer>\s*", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]{0,300}(?:\.\d{1,300})?")


def compute_math_reward(solution_str: str, ground_truth: str) -> float:
    """Return 0.1 for the form `<think>...</think><answer>...</answer>`, plus 0.9 for the right answer.

    The form is that of the whole output, each tag once and neither body empty. The answer is what stands in the answer
    tags, or without them the last number of the output.
    """
    form = 0.1 if has_form(solution_str) else 0.0
    right = 0.9 if is_right(extract_answer(solution_str), str(ground_truth)) else 0.0
    return form + right


def has_form(text: str) -> bool:
    """Return whether the whole text is one thought and one answer."""
    match = FORM.fullmatch(text)
    once = all(text.count(tag) == 1 for tag in TAGS)
    return once and match is not None and all(body.strip() for body in match.groups())


def extract_answer(text: str) -> str:
    """Return the answer that a text gives."""
    _, opened, rest = text.rpartition("<answer>")
    if opened:
        return rest.partition("</answer>")[0].strip()
    numbers = NUMBER.findall(text)
    return numbers[-1] if numbers else ""


def is_right(answer: str, ground_truth: str) -> bool:
    """Return whether two answers are the same number, or the same text if they are not numbers."""
    given, wanted = number(answer), number(ground_truth)
    if given is None or wanted is None:
        return bool(answer) and answer.strip() == ground_truth.strip()
    return given == wanted


def number(text: str) -> Fraction | None:
    """Return the exact number that a text is, or None: "$1,200.00" is 1200."""
    plain = text.strip().strip("$").rstrip(".").replace(",", "")
    return Fraction(plain) if re.fullmatch(r"[-+]?\d{1,300}(\.\d{1,300})?", plain) else None
