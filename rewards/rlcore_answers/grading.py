"""Rewards for mathematical answers: the number of a word problem, and any answer that mathematics can write."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from rlcore.data import target_of
from rlcore_answers.cleaning import clean
from rlcore_answers.comparison import Policy, compare
from rlcore_answers.extraction import FORMS, STRICT, Form, box, extract, hashes
from rlcore_answers.parser import LONGEST_ANSWER, readable
from rlcore_answers.sympy_calls import equal_by_sympy
from rlcore_rewards.calling import bounded, checks_target
from rlcore_rewards.numeric import find_number, parse_number
from rlcore_rewards.text import alternatives
from rlcore_workers import Stopped, Workers

CPU_SECONDS = 1.0
SECONDS = 5.0
MEMORY_BYTES = 200 * 2**20
"""What one comparison by sympy may take; a machine under load may need more than a second for a second's work."""
GSM8K_FORMS: tuple[Form, ...] = ("hashes", "box", "tag", "phrase", "line", "number")


def gold_answers(target: Any) -> list[str]:
    """Return the gold answers of a target as texts: one, or of a list any. Of a worked solution its box, or its `####`
    line.

    Numbers of Python and numpy are written as one writes them: 7.0 is "7".

    Raises:
        ValueError: there is no target, or it is neither text nor a finite number, or no answer that can be read.
    """
    return [gold_answer(item) for item in alternatives(target, expected="an answer")]


def gold_answer(target: Any) -> str:
    """Return one gold answer as text. Raises ValueError as `gold_answers` does."""
    if isinstance(target, str):
        text = (box(target) if "box" in target else None) or hashes(target) or target
    elif isinstance(target, bool) or not isinstance(target, int | float) or not math.isfinite(target):
        raise ValueError(f"the target {target!r:.80} is neither text nor a finite number")
    else:
        text = str(int(target)) if float(target).is_integer() else repr(target)
    if not readable(text):
        raise ValueError(f"the target {target!r:.80} cannot be read as an answer")
    return text.strip()


def gold_numbers(target: Any) -> list[str]:
    """Return the gold numbers of a target as texts. Raises ValueError if one is no number."""
    texts = gold_answers(target)
    for text in texts:
        parse_number(text)
    return texts


@bounded
@checks_target(gold_numbers)
def gsm8k(completion: str, target: Any, *, strict: bool = False) -> dict[str, Any]:
    """Return 1.0 if the number that a completion ends in is the target's, else 0.0.

    The answer is what the last `####` marks, else the last box, `<answer>` tag or "the answer is", else the last
    number. It is compared by value, whatever stands around it: "$1,200.00", "1200 dollars" and "x = 1200" are 1200.
    `numeric_answer` is the plainer of the two: it knows only `####` and the last number, no boxes or tags.

    Args:
        completion: the whole output.
        target: a number, or a text that is one or ends in `#### 12`; of a list any one will do.
        strict: only what `####` marks is an answer.

    Raises:
        ValueError: the target is no number.
    """
    golds = gold_numbers(target)
    answer = extract(completion, forms=("hashes",) if strict else GSM8K_FORMS)
    return {"score": float(answer is not None and any(is_number(answer, one) for one in golds)), "extracted": answer}


def is_number(answer: str, gold: str) -> bool:
    """Return whether an answer is a number; if it is no answer ("12, not 13"), whether its first number is."""
    if readable(answer):
        return compare(gold, answer) is True
    number = parse_number(gold)
    return find_number(f"#### {answer[:LONGEST_ANSWER]}", fractions=number.denominator > 1) == number


class Math:
    r"""1.0 if a completion's answer is the target's, else 0.0; without an answer 0.0.

    The answer is found by `extract` (the last `\boxed{}` first) and compared by `compare`: numbers by value, fractions
    exactly; expressions, equations, tuples, sets, intervals, matrices and words by what they mean. What only sympy can
    compare (sums, integrals, limits) is compared in worker processes; past 1 second of CPU or 200 MB it is
    stopped, scores 0.0 and counts in the component `stopped`.

    Args:
        strict: only a box is an answer.
        percent: `dropped`: 50% is 50; `hundredth`: 50% is 1/2.
        units: `dropped`: 5 cm is 5; `compared`: it is not.
        tolerance: how far decimals may differ, as a share (`Policy`).
        processes: worker processes for what only sympy can compare.
    """

    bounded = True

    def __init__(
        self,
        *,
        strict: bool = False,
        percent: Literal["dropped", "hundredth"] = "dropped",
        units: Literal["dropped", "compared"] = "dropped",
        tolerance: float = 1e-6,
        processes: int = 1,
    ) -> None:
        self.forms = STRICT if strict else FORMS
        self.policy = Policy(percent=percent, units=units, tolerance=tolerance)
        self.workers = sympy_workers(processes)

    def check_row(self, data: Mapping[str, Any]) -> None:
        """Raise ValueError if the row's target cannot be read as an answer."""
        gold_answers(target_of(data))

    def __call__(self, completion: str, target: Any) -> dict[str, Any]:
        """Return the score of one completion: 1.0 for any of the targets. Raises ValueError as `check_row` does."""
        golds = gold_answers(target)
        answer = extract(completion, forms=self.forms)
        score = stopped = 0.0
        for one in golds if answer is not None else ():
            try:
                right = equal(one, answer or "", policy=self.policy, workers=self.workers)
            except Stopped:
                stopped = 1.0
                continue
            if right:
                score = 1.0
                break
        return {"score": score, "stopped": stopped, "extracted": answer}

    def close(self) -> None:
        """End the worker processes, if any were started."""
        self.workers.close()


def equal(left: str, right: str, *, policy: Policy, workers: Workers) -> bool:
    """Return whether two answers are equal, by sympy where only it can tell. Raises Stopped past its limits."""
    same = compare(left, right, policy)
    if same is None:
        same = call_twice(workers, equal_by_sympy, *sorted((clean(left), clean(right))))
    return bool(same)


def call_twice(workers: Workers, function: Callable[..., Any], *args: Any) -> Any:
    """Return what a call in a worker gives; the call is made once more if its process, or the one that this was
    forked from, was killed from outside.

    Raises Stopped if a limit was passed, or the process died again.
    """
    try:
        return workers.call(function, *args)
    except Stopped as stopped:
        if stopped.limit != "died":
            raise
    except OSError:
        pass
    return workers.call(function, *args)


def sympy_workers(processes: int) -> Workers:
    """Return worker processes with sympy loaded and the limits of one comparison."""
    return Workers(
        processes=processes,
        seconds=SECONDS,
        cpu_seconds=CPU_SECONDS,
        memory_bytes=MEMORY_BYTES,
        preload=("math_verify",),
    )
