"""Figures of success: pass@k, maj@n and standard errors against independent computations."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.run.evaluate import success_figures
from tests.run import small

grids = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=5)
)


def mean_and_error(values):
    values = [float(v) for v in values]
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, None
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))


def same(figures, name, values):
    mean, error = mean_and_error(values)
    assert figures[name] == pytest.approx(mean, abs=1e-12)
    assert (f"{name}_se" in figures) == (error is not None)
    if error is not None:
        assert figures[f"{name}_se"] == pytest.approx(error, abs=1e-12)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(grids)
def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample(grid):
    figures = success_figures(np.array(grid), [[None] * len(row) for row in grid])
    n = len(grid[0])
    same(figures, "success", [Fraction(sum(row), n) for row in grid])
    expected = sorted({k for k in (2, 4) if k < n} | ({n} if n > 1 else set()))
    assert (
        sorted(int(name[5:]) for name in figures if name.startswith("pass@") and not name.endswith("_se")) == expected
    )
    for k in expected:
        subsets = [list(itertools.combinations(row, k)) for row in grid]
        same(figures, f"pass@{k}", [Fraction(sum(map(any, each)), len(each)) for each in subsets])
    assert not any(name.startswith("maj") for name in figures)


def test_pass_at_k_of_many_samples_is_that_of_exact_fractions():
    n, right = 256, [0, 1, 7, 128, 255, 256]
    grid = np.array([[i < c for i in range(n)] for c in right])
    figures = success_figures(grid, [[None] * n] * len(right))
    for k in (2, 64, 128, 256):
        exact = [1 - Fraction(math.comb(n - c, k), math.comb(n, k)) for c in right]
        same(figures, f"pass@{k}", exact)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=4, max_size=4), min_size=1, max_size=5))
def test_the_majority_decides_and_of_equals_the_first_drawn(answers):
    grid = np.array([[answer == "b" for answer in row] for row in answers])
    figures = success_figures(grid, answers)

    def right(row):
        given_ = [answer for answer in row if answer is not None]
        # The largest count wins; of equal counts the answer whose first sample came first.
        best = max(given_, key=lambda a: (given_.count(a), -given_.index(a)), default=None)
        return best == "b"

    if any(answer is not None for row in answers for answer in row):
        same(figures, "maj@4", [right(row) for row in answers])
    else:
        assert "maj@4" not in figures


def last_digit(completion, target):
    """Extracts the last digit; right if it is even."""
    digits = [c for c in completion if c.isdigit()]
    return {"score": float(bool(digits) and int(digits[-1]) % 2 == 0), "extracted": digits[-1] if digits else None}


last_digit.bounded = True


def silent(completion, target):
    """A score that says not what was extracted; some samples have none."""
    return math.nan if completion[:1] == "a" else float(any(c.isdigit() for c in completion))


silent.bounded = True


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small.save_model(tmp_path_factory.mktemp("model") / "tiny")


def test_an_evaluation_has_them_where_there_are_several_samples(model, tmp_path):
    run = small.make(model, tmp_path, reward=last_digit, max_new_tokens=8, eval={"samples": 6})
    figures = run.evaluate(small.ROWS)
    assert {"success", "success_se", "pass@2", "pass@4", "pass@6", "pass@6_se", "maj@6", "maj@6_se"} <= figures.keys()
    assert 0 < figures["success"] < figures["pass@2"] < figures["pass@6"] <= 1
    assert figures["samples"] == 6 * len(small.ROWS)
    run.load().close()
    run = small.make(model, tmp_path, reward=silent, max_new_tokens=8, eval={"samples": 4})
    figures = run.evaluate(small.ROWS)
    assert "pass@4" in figures
    assert not any(name.startswith("maj") for name in figures)
    run.load().close()
    run = small.make(model, tmp_path, reward=last_digit, max_new_tokens=8)
    figures = run.evaluate(small.ROWS)
    assert not any("@" in name for name in figures)
    assert "success_se" in figures
    assert "success_se" not in run.evaluate(small.ROWS[:1])
    run.load().close()


def test_a_run_prints_and_keeps_them(model, tmp_path, capsys):
    from rlcore import Run

    run = Run(
        algorithm=small.grpo(group_size=2), model=str(model), data={"name": "countdown", "rows": 8, "split": "train"},
        reward=last_digit, steps=1, prompts=2, max_new_tokens=6, eval={"samples": 4, "limit": 6}, device="cpu",
        tracker=("jsonl",), run={"folder": str(tmp_path)},
    ).train()  # fmt: skip
    err = capsys.readouterr().err
    assert " +/- " in err
    assert "pass@4" in err
    assert run.summary["success_se_after"] > 0
    assert small.read(run.folder / "evaluations.jsonl")[-1]["pass@4"] >= run.summary["success_after"]
