"""Tasks made from a seed: each row's own answer is right, its reward says so, and no problem is on two sides."""

import re

import pytest

from rlcore.errors import DataError
from rlcore.registry import get
from rlcore_envs.datasets import arithmetic, letter_counting, reasoning_gym, sorting
from rlcore_envs.datasets.gym import reasoning_gym_answer
from rlcore_envs.datasets.seeded_tasks import evaluate_terms

TASKS = {arithmetic: "numeric_answer", sorting: "exact_answer", letter_counting: "numeric_answer"}
SIDES = ("warm", "train", "heldout")


def problem(task, row):
    """What makes two rows of a task the same problem."""
    if task is letter_counting:
        return re.search(r"word (\w+)", row["prompt"])[1]
    return tuple(sorted(re.findall(r"\d+", row["prompt"].partition(":")[2] or row["prompt"])))


@pytest.mark.parametrize("task", TASKS)
def test_no_problem_is_on_two_sides_whatever_the_seeds(task):
    small = dict(rows=150, longest=4, digits=1) if task is arithmetic else dict(rows=60)
    sides = [{problem(task, row) for s in (0, 1) for row in task(split=side, seed=s, **small)} for side in SIDES]
    if task is not arithmetic:  # there the signs count too
        assert not sides[0] & sides[1]
        assert not sides[0] & sides[2]
        assert not sides[1] & sides[2]
    prompts = [{row["prompt"] for s in (0, 1) for row in task(split=side, seed=s, **small)} for side in SIDES]
    assert not prompts[0] & prompts[1]
    assert not prompts[1] & prompts[2]


def test_the_same_numbers_and_signs_in_another_order_are_the_same_sum():
    options = dict(longest=2, digits=1, signs="+", rows=20)
    pairs = [{tuple(sorted(re.findall(r"\d", r["prompt"]))) for r in arithmetic(split=s, **options)} for s in SIDES[:2]]
    assert not pairs[0] & pairs[1]


@pytest.mark.parametrize("task", TASKS)
def test_a_seed_gives_the_same_rows_and_no_prompt_twice(task):
    rows = task(rows=50, seed=3)
    assert rows[:] == task(rows=50, seed=3)[:]
    assert rows[:] != task(rows=50, seed=4)[:]
    assert len({row["prompt"] for row in rows}) == 50
    assert {row["data_source"] for row in rows} == {task.__name__}


@pytest.mark.parametrize("task", TASKS)
def test_the_registered_reward_grades_the_answer_right_and_another_wrong(task):
    reward = get("reward", TASKS[task])
    for row in task(split="warm", rows=20):
        assert reward(completion=row["completion"], target=row["target"]) == 1.0
        assert reward(completion=f"{row['completion']}1", target=row["target"]) == 0.0


def test_answers_are_what_the_prompts_ask():
    assert all(row["target"] == eval(row["prompt"].rstrip("= ")) for row in arithmetic(signs="+-*", longest=5, rows=50))
    assert evaluate_terms([5, 3, 2, 4], ["-", "*", "+"]) == 3
    for row in sorting(rows=20):
        assert row["target"] == ", ".join(map(str, sorted(map(int, row["prompt"].partition(": ")[2].split(", ")))))
    for row in letter_counting(rows=20):
        letter, word = re.search(r"letter (\w) stand in the word (\w+)", row["prompt"]).groups()
        assert (row["target"], row["difficulty"]) == (word.count(letter), len(word))


def test_difficulty_is_within_the_bounds_that_were_asked_for():
    for task in TASKS:
        assert {row["difficulty"] for row in task(rows=60, shortest=4, longest=6)} == {4, 5, 6}
    assert max(len(n) for row in arithmetic(rows=60, digits=5) for n in re.findall(r"\d+", row["prompt"])) == 5
    row = sorting(rows=1, system_prompt="Be brief.", template="Q: {prompt}")[0]
    assert row["prompt"][1]["content"].startswith("Q: Sort")


@pytest.mark.parametrize(
    ("task", "options", "said"),
    [
        (arithmetic, {"rows": 0}, "rows=0; expected 1 or more"),
        (arithmetic, {"shortest": 5}, "shortest=5; expected 2 to 3"),
        (arithmetic, {"signs": "+/"}, r"signs='\+/'; expected some of \+ - \*"),
        (sorting, {"digits": 1, "longest": 6}, "longest=6; expected 2 to 5"),
        (letter_counting, {"letters": 27}, "letters=27; expected 1 to 26"),
        (
            arithmetic,
            {"rows": 500, "digits": 1, "longest": 2, "signs": "+"},
            r"found \d+ different ones; ask for fewer",
        ),
    ],
)
def test_options_out_of_range_and_too_many_rows_are_refused(task, options, said):
    with pytest.raises(DataError, match=said):
        list(task(**options))


@pytest.fixture
def gym():
    return pytest.importorskip("reasoning_gym")


def test_reasoning_gym_rows_are_graded_by_the_tasks_own_rules(gym):
    options = dict(task="chain_sum", rows=12, config={"max_terms": 3})
    rows = reasoning_gym(**options)
    assert rows[:] == reasoning_gym(**options)[:]
    assert {row["data_source"] for row in rows} == {"reasoning_gym/chain_sum"}
    for row in rows:
        given = {name: row[name] for name in ("question", "target", "metadata")}
        assert reasoning_gym_answer(row["target"], **given) == 1.0
        assert reasoning_gym_answer("no idea", **given) == 0.0
        assert reasoning_gym_answer(f"so <answer> {row['target']} </answer>", **given, tagged=True) == 1.0
        assert reasoning_gym_answer(row["target"], **given, tagged=True) == 0.0
    held = {row["prompt"] for row in reasoning_gym(**options, split="heldout")}
    assert not held & {row["prompt"] for row in rows}
    assert reasoning_gym(**options, split="warm")[0]["completion"]
    assert get("reward", "reasoning_gym_answer") is reasoning_gym_answer


def test_what_a_tasks_rules_stumble_over_is_worth_nothing(gym):
    [row] = reasoning_gym(task="prime_factorization", rows=1)
    assert reasoning_gym_answer("no idea", row["question"], row["target"], row["metadata"]) == 0.0
    with pytest.raises(ValueError):
        reasoning_gym_answer("no idea", row["question"], "nor this", row["metadata"])


def test_reasoning_gym_refuses_what_it_does_not_have(gym, monkeypatch):
    with pytest.raises(DataError, match="no task 'chain_sums'. Did you mean 'chain_sum'"):
        reasoning_gym(task="chain_sums")
    with pytest.raises(DataError, match="task 'chain_sum' refuses its options .*max_term"):
        reasoning_gym(task="chain_sum", config={"max_term": 3})
    monkeypatch.setitem(__import__("sys").modules, "reasoning_gym", None)
    with pytest.raises(DataError, match=r"pip install 'rlcore\[reasoning-gym\]'"):
        reasoning_gym(task="chain_sum")
