r"""The policies of other programs, scored as they score, for results that are to be compared with theirs.

Their weaknesses are theirs and kept: comparison of texts, windows at the end, units cut out of words. What differs is
said at each. Targets may be lists here (any of them), and numbers (written as one writes them).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rlcore.data import target_of
from rlcore_answers.grading import call_twice, sympy_workers
from rlcore_answers.sympy_calls import score_by_math_verify
from rlcore_rewards.calling import bounded, checks_target
from rlcore_rewards.text import target_texts
from rlcore_workers import Stopped

WINDOW = 300  # characters at the end that verl looks at
BOX_WINDOW = 100  # likewise, for a box in `verl_math_dapo`
MARKED_NUMBER = re.compile(r"#### (-?[0-9.,]+)")
BRACE = re.compile(r"[{}]")
ANSWER_LINE = re.compile(r"answer\s*:\s*([^\n]+)", re.IGNORECASE)

DAPO_REPLACED = (("an ", ""), ("a ", ""), (".$", "$"), ("\\$", ""), ("\\ ", ""), (" ", ""), ("mbox", "text"),
                 (",\\text{and}", ","), ("\\text{and}", ","), ("\\text{m}", "\\text{}"))  # fmt: skip
DAPO_REMOVED = (
    "square", "ways", "integers", "dollars", "mph", "inches", "hours", "km", "units", "\\ldots", "sue", "points",
    "feet", "minutes", "digits", "cents", "degrees", "cm", "gm", "pounds", "meters", "meals", "edges", "students",
    "childrentickets", "multiples", "\\text{s}", "\\text{.}",
    "\\text{\ns}", "\\text{}^2", "\\text{}^3", "\\text{\n}", "\\text{}", "\\mathrm{th}", "^\\circ", "^{\\circ}", "\\;",
    ",\\!", "{,}", '"', "\\dots",
)  # fmt: skip
"""What Minerva's normal form (Lewkowycz et al. 2022, arXiv:2206.14858, appendix D.1) takes out, in this order."""


@bounded
@checks_target(target_texts)
def verl_gsm8k(completion: str, target: Any) -> dict[str, Any]:
    """Return 1.0 if the last number behind `#### ` in the last 300 characters is the target, text for text, else 0.0.

    verl 0.9, `reward_score/gsm8k.py` as verl calls it: commas are taken out of the number; "18.00" is not "18".
    """
    marked, golds = MARKED_NUMBER.findall(completion[-WINDOW:]), target_texts(target)
    answer = marked[-1].replace(",", "") if marked else None
    return {"score": float(answer in golds), "extracted": answer}


@bounded
@checks_target(target_texts)
def verl_math_dapo(completion: str, target: Any) -> dict[str, Any]:
    """Return 1.0 if the answer is the target in Minerva's normal form, else -1.0; component `acc`: 1.0 or 0.0.

    verl 0.9, `reward_score/math_dapo.py` as verl calls it: of the last 300 characters the last "Answer: ..." line,
    normalised; without one the last box within the last 100 characters, which must be the target to the letter. verl's
    `pred` is `extracted` here.
    """
    tail, golds = completion[-WINDOW:], target_texts(target)
    minerva_golds = [normalize_minerva(gold) for gold in golds]
    lines = ANSWER_LINE.findall(tail)
    answer = normalize_minerva(lines[-1]) if lines else None
    right = answer in minerva_golds
    if answer in (None, "[INVALID]"):  # verl's sign for "none", which a policy may write too
        answer = box_at(tail[-BOX_WINDOW:], tail[-BOX_WINDOW:].rfind("\\boxed{"))
        right = answer in golds if answer is not None else "[INVALID]" in minerva_golds
    return {"score": 1.0 if right else -1.0, "acc": float(right), "extracted": answer}


def normalize_minerva(text: str) -> str:
    """Return an answer in the normal form of Minerva, as verl writes it."""
    text = text.split("=")[-1]
    for old, new in DAPO_REPLACED:
        text = text.replace(old, new)
    for word in DAPO_REMOVED:
        text = text.replace(word, "")
    text = re.sub(r"(.*?)(\$)(.*?)(\$)(.*)", r"$\3$", text)
    for command in ("text", "textbf", "overline"):
        text = re.sub(rf"\\{command}\{{(.*?)\}}", r"\1", text)
    text = re.sub(r"\\boxed\{(.*)\}", r"\1", text)
    text = re.sub(r"(frac)([^{])(.)", r"frac{\2}{\3}", text)
    text = re.sub(r"(sqrt)([^{])", r"sqrt{\2}", text)
    text = text.replace("$", "")
    digits = text.replace(",", "")
    return (digits if digits.isdigit() else text).strip()


@bounded
@checks_target(target_texts)
def hendrycks_math(completion: str, target: Any) -> dict[str, Any]:
    r"""Return 1.0 if the last box is the target in the normal form of MATH, else 0.0.

    Hendrycks et al. 2021 (arXiv:2103.03874), as in verl 0.9, `reward_score/math_reward.py`: texts are compared after
    `\left`, degrees, dollars, per cent and units are gone and `\frac12`, `1/2` and `0.5` are `\frac{1}{2}`. A box
    that is never closed is no answer, and no earlier one takes its place.
    """
    if "\\boxed " in completion:  # as MATH reads it: before all others; `\\fbox` makes it fail
        answer: str | None = completion.rpartition("\\boxed ")[2].partition("$")[0]
    else:
        answer = box_at(completion, completion.rfind("\\boxed"))
    golds = target_texts(target)
    right = answer is not None and any(same_in_math(answer, gold) for gold in golds)
    return {"score": float(right), "extracted": answer}


def box_at(text: str, start: int) -> str | None:
    r"""Return the content of the `\boxed{` at a position; None if there is none or it is never closed."""
    if start < 0 or not text.startswith("\\boxed{", start):
        return None
    depth = 0
    for match in BRACE.finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return text[start + len("\\boxed{") : match.start()]
    return None


def same_in_math(answer: str, gold: str) -> bool:
    """Return whether two texts have the same normal form; as they stand if one has none."""
    try:
        return normalize_math(answer) == normalize_math(gold)
    except (IndexError, ValueError):
        return answer == gold


def normalize_math(text: str) -> str:
    """Return an answer in the normal form of MATH. Raises ValueError or IndexError where MATH's own code fails."""
    for old, new in (("\n", ""), ("\\!", ""), ("\\\\", "\\"), ("tfrac", "frac"), ("dfrac", "frac"), ("\\left", ""),
                     ("\\right", ""), ("^{\\circ}", ""), ("^\\circ", ""), ("\\$", "")):  # fmt: skip
        text = text.replace(old, new)
    if "\\text{ " in text:
        text, _ = text.split("\\text{ ")  # two units are a ValueError
    for old, new in (("\\\\%", ""), ("\\%", ""), (" .", " 0."), ("{.", "{0.")):
        text = text.replace(old, new)
    if not text:
        return text
    text = f"0{text}" if text[0] == "." else text
    sides = text.split("=")
    if len(sides) == 2 and len(sides[0]) <= 2:
        text = sides[1]
    text = brace_arguments(text, "\\sqrt").replace(" ", "")
    text = brace_fractions(text)
    text = "\\frac{1}{2}" if text == "0.5" else text
    match = re.fullmatch(r"(0|-?[1-9][0-9]*)/(0|-?[1-9][0-9]*)", text)
    return rf"\frac{{{match[1]}}}{{{match[2]}}}" if match else text


def brace_arguments(text: str, command: str) -> str:
    """Return the text with the sign behind each such command in braces. Raises IndexError if none stands there."""
    first, *rest = text.split(command)
    return first + "".join(command + (part if part[0] == "{" else f"{{{part[0]}}}{part[1:]}") for part in rest)


def brace_fractions(text: str) -> str:
    r"""Return the text with the two signs behind `\frac` in braces; as it stands where only one is left."""
    first, *rest = text.split("\\frac")
    braced = [first]
    for part in rest:
        if part[0] != "{":
            if len(part) < 2:
                return text
            part = f"{{{part[0]}}}" + (part[1:] if part[1] == "{" else f"{{{part[1]}}}{part[2:]}")
        braced.append(part)
    return "\\frac".join(braced)


class MathVerify:
    """1.0 if math-verify takes the completion's answer for the target, else 0.0.

    As verl 0.9 calls math-verify 0.9 (`reward_score/math_verify.py`): the gold answer in a box, read as LaTeX; of the
    completion what math-verify finds as an expression or as LaTeX. Its order of gold and answer matters, and several
    boxes in one answer may be read as a set. Differs in what bounds it: 1 CPU second and 200 MB in a worker process,
    past which the score is 0.0 and the component `stopped` 1.0 (verl: 30 seconds by the clock), so that it works in
    any thread.

    Args:
        processes: worker processes.
    """

    bounded = True

    def __init__(self, *, processes: int = 2) -> None:
        self.workers = sympy_workers(processes)

    def check_row(self, data: Mapping[str, Any]) -> None:
        """Raise ValueError if the row's target is neither text nor a number."""
        target_texts(target_of(data))

    def __call__(self, completion: str, target: Any) -> dict[str, Any]:
        """Return the score of one completion. Raises ValueError as `check_row` does."""
        score, stopped, extracted = 0.0, 0.0, None
        for gold in target_texts(target):
            try:
                score, extracted = call_twice(self.workers, score_by_math_verify, completion, gold)
            except Stopped:
                score, stopped = 0.0, 1.0
            if score == 1.0:
                break
        return {"score": score, "stopped": stopped, "extracted": extracted}

    def close(self) -> None:
        """End the worker processes, if any were started."""
        self.workers.close()
