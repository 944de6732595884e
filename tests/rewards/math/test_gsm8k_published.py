"""The published solutions of GSM8K (Cobbe et al. 2021, MIT licence): 200 here, all where RLCORE_GSM8K says where."""

import json
import os
from pathlib import Path

import pytest

from rlcore_answers.grading import Math, gsm8k

SAMPLE = Path(__file__).with_name("gsm8k_sample.jsonl")
PUBLISHED = 7473 + 1319  # rows of train and test


def solutions(*files):
    """The published solutions of files of rows with an `answer`."""
    return [json.loads(line)["answer"] for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def check(rows, reward):
    """Every solution is right against its own answer, and against another row's exactly if the two are equal."""
    golds = [row.rpartition("####")[2].strip() for row in rows]
    assert [row for row, gold in zip(rows, golds, strict=True) if reward(row, gold)["score"] != 1.0] == []
    assert [row for row in rows if reward(row, row)["score"] != 1.0] == []
    values = [float(gold.replace(",", "")) for gold in golds]
    for shift in (1, len(rows) // 3):
        other = [(k + shift) % len(rows) for k in range(len(rows))]
        taken = [reward(row, golds[k])["score"] == 1.0 for row, k in zip(rows, other, strict=True)]
        assert taken == [values[here] == values[k] for here, k in enumerate(other)]


@pytest.mark.parametrize(
    "reward", [gsm8k, Math(), Math(strict=False, units="compared")], ids=["gsm8k", "math", "units"]
)
def test_two_hundred_published_solutions_are_graded_right(reward):
    rows = solutions(SAMPLE)
    assert len(rows) == 200
    check(rows, reward)


@pytest.mark.slow
def test_all_published_solutions_are_graded_right():
    folder = os.environ.get("RLCORE_GSM8K")
    if not folder:
        pytest.skip("RLCORE_GSM8K is not set to a folder with gsm8k_train.jsonl and gsm8k_test.jsonl")
    rows = solutions(Path(folder) / "gsm8k_train.jsonl", Path(folder) / "gsm8k_test.jsonl")
    assert len(rows) == PUBLISHED
    for reward in (gsm8k, Math()):
        check(rows, reward)
