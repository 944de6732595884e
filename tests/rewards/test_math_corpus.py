"""The math reward against pairs of gold and answer whose verdict was written down before there was a grader."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rlcore import registry
from rlcore.errors import RLCoreError
from rlcore.protocols import Sample
from rlcore_rewards.calling import Caller, read_result

CORPUS = Path(__file__).with_name("math_corpus.jsonl")
FIELDS = {"gold", "answer", "form", "verdict", "source", "note"}
OWN = "own"


def corpus() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


def test_the_corpus_is_large_and_most_of_it_is_public() -> None:
    rows = corpus()
    assert len(rows) >= 400
    assert all(set(row) == FIELDS for row in rows)
    assert all(isinstance(row[name], str) for row in rows for name in FIELDS - {"verdict"})
    public = [row["source"] for row in rows if row["source"] != OWN]
    assert len(public) >= len(rows) / 2
    assert all(source.startswith(("https://", "GSM8K test row ")) for source in public)


def test_the_corpus_has_no_row_twice_and_no_pair_with_two_verdicts() -> None:
    rows = corpus()
    counts = Counter((row["gold"], row["answer"], row["form"]) for row in rows)
    assert [key for key, count in counts.items() if count > 1] == []
    verdicts = {(row["gold"], row["answer"]): row["verdict"] for row in rows if row["form"] == "answer"}
    swapped = [pair for pair, verdict in verdicts.items() if verdicts.get(pair[::-1], verdict) != verdict]
    assert swapped == []


def test_the_corpus_has_right_and_wrong_answers_in_both_forms() -> None:
    rows = corpus()
    assert {row["form"] for row in rows} == {"answer", "completion"}
    assert all(isinstance(row["verdict"], bool) for row in rows)
    wrong = sum(not row["verdict"] for row in rows) / len(rows)
    assert 0.4 <= wrong <= 0.5


def test_the_math_reward_agrees_with_every_row() -> None:
    reward = math_reward()
    wrong = [line for row in corpus() for line in disagreement(reward, row["gold"], completion(row), row)]
    assert not wrong, "\n".join([f"{len(wrong)} disagreements:", *wrong])


@pytest.mark.slow
def test_the_math_reward_agrees_when_gold_and_answer_change_places() -> None:
    reward = math_reward()
    pairs = [{**row, "gold": row["answer"], "answer": row["gold"]} for row in corpus() if row["form"] == "answer"]
    wrong = [line for row in pairs for line in disagreement(reward, row["gold"], completion(row), row)]
    assert not wrong, "\n".join([f"{len(wrong)} disagreements:", *wrong])


def math_reward() -> Callable[..., Any]:
    if "math" not in registry.names("reward"):
        pytest.skip("no reward is named 'math' yet")
    made = registry.get("reward", "math")
    return made() if isinstance(made, type) else made


def completion(row: Mapping[str, Any]) -> str:
    return str(row["answer"]) if row["form"] == "completion" else f"So it is \\boxed{{{row['answer']}}}."


def disagreement(reward: Callable[..., Any], gold: str, text: str, row: Mapping[str, Any]) -> list[str]:
    """One line if the reward disagrees. A gold that it cannot read is an error to it, and never right."""
    sample = Sample("", text, None, {"target": gold})
    try:
        positional, named = Caller(reward, "math").arguments(sample)
        graded = read_result(reward(*positional, **named))
    except (ValueError, RLCoreError) as error:
        said: Any = f"{type(error).__name__}: {error}"[:120]
        right = not row["verdict"] and isinstance(error, ValueError)
    else:
        said, right = graded.score, graded.score == float(row["verdict"])
    if right:
        return []
    return [
        f"  gold {gold!r}  text {text[-80:]!r}  expected {row['verdict']}  got {said}  ({row['note']}) {row['source']}"
    ]
