"""Right or nearly right by the text: the whole of it, or its words as question answering is graded.

The normal form of words and both measures are those of SQuAD (Rajpurkar et al. 2016, arXiv:1606.05250).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from typing import Any

from rlcore.data import native
from rlcore_rewards.calling import bounded, checks_target

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def alternatives(target: Any, *, expected: str) -> list[Any]:
    """Return the target, or each of a list of which any will do, in Python's own types.

    Raises ValueError for an empty list, which no completion could be; `expected` says what one holds.
    """
    target = native(target)
    if target == []:
        raise ValueError(f"the target is an empty list; expected {expected}")
    return target if isinstance(target, list) else [target]


def target_texts(target: Any) -> list[str]:
    """Return the target, or each of a list, as text. Raises ValueError if one is neither, or there is none."""
    return [target_text(item) for item in alternatives(target, expected="a text or a number")]


def target_text(target: Any) -> str:
    """Return a target as text, without space around it."""
    if isinstance(target, str):
        return target.strip()
    if isinstance(target, bool) or not hasattr(target, "__float__"):
        raise ValueError(f"the target {target!r:.80} is neither text nor a number")
    return str(int(target)) if float(target).is_integer() else str(target)


@bounded
@checks_target(target_texts)
def exact(completion: str, target: Any) -> dict[str, Any]:
    """Return 1.0 if the completion is the target, character by character but for space around them, else 0.0.

    A number is compared as one writes it (7 and 7.0 are "7"); a list of targets means any of them.

    Raises:
        ValueError: the target is neither text nor a number, or an empty list, so that no completion could be right.
    """
    answer = completion.strip()
    return {"score": float(answer in target_texts(target)), "extracted": answer}


@bounded
@checks_target(target_texts)
def exact_answer(completion: str, target: Any) -> float:
    """Return the score of `exact` as a bare number. Raises ValueError as that does."""
    return exact(completion, target)["score"]


def squad_targets(target: Any) -> list[str]:
    """Return the targets as texts. Raises ValueError for what is neither text, number nor a list of them."""
    items = alternatives(target, expected="a text, a number or a list of them, not empty")
    if any(isinstance(item, bool) or not isinstance(item, str | int | float) for item in items):
        raise ValueError(f"the target is {target!r:.80}; expected a text, a number or a list of them, not empty")
    return [str(item) for item in items]


@bounded
@checks_target(squad_targets)
def exact_match(completion: str, target: Any, *, tag: str = "") -> dict[str, Any]:
    """Return 1.0 if the answer is the target in SQuAD's normal form, else 0.0: case, punctuation, articles do not
    count.

    Args:
        completion: the whole of it is the answer, unless there is a `tag`.
        target: a text or number; of a list any one will do.
        tag: with "answer", only what stands in the last `<answer>...</answer>` is the answer; without one 0.

    Raises:
        ValueError: the target is neither text, number, nor a list of them.
    """
    golds = squad_targets(target)
    answer = find_answer(completion, tag)
    right = answer is not None and normalize(answer) in [normalize(gold) for gold in golds]
    return {"score": float(right), "extracted": answer}


@bounded
@checks_target(squad_targets)
def token_f1(completion: str, target: Any, *, tag: str = "") -> dict[str, Any]:
    """Return SQuAD's F1 of the words of answer and target, from 0 to 1: of a list of targets the best.

        F1 = 2 P R / (P + R)     P: share of the answer's words in the target, R: share of the target's in the answer

    A word counts as often as it stands in both. Normal form, `tag` and errors as for `exact_match`; where one of the
    two has no word left, 1 if the other has none either, else 0. Components: `precision` and `recall` of the
    best target.
    """
    golds = squad_targets(target)
    answer = find_answer(completion, tag)
    if answer is None:
        return {"score": 0.0, "precision": 0.0, "recall": 0.0, "extracted": None}
    words = normalize(answer).split()
    score, precision, recall = max(f1(words, normalize(gold).split()) for gold in golds)
    return {"score": score, "precision": precision, "recall": recall, "extracted": answer}


def f1(answer: list[str], gold: list[str]) -> tuple[float, float, float]:
    """Return F1, precision and recall of two lists of words."""
    if not answer or not gold:
        same = float(answer == gold)
        return same, same, same
    shared = (Counter(answer) & Counter(gold)).total()
    precision, recall = shared / len(answer), shared / len(gold)
    return (2 * precision * recall / (precision + recall) if shared else 0.0), precision, recall


def normalize(text: str) -> str:
    """Return SQuAD's normal form: lower case, no ASCII punctuation, no English articles, single spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def find_answer(completion: str, tag: str) -> str | None:
    """Return the completion without space around it, or what stands in the last complete block of a tag."""
    if not tag:
        return completion.strip()
    before, closed, _ = completion.rpartition(f"</{tag}>")
    _, opened, body = before.rpartition(f"<{tag}>")
    return body.strip() if closed and opened else None
