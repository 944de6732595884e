import threading

import numpy as np
import pytest

from rlcore import registry
from rlcore.protocols import Sample
from rlcore_answers.grading import Math, gsm8k
from rlcore_rewards.managers import DefaultManager
from rlcore_rewards.text import exact, exact_answer

KINDS = [np.int64(7), np.float32(7.0), np.str_("7"), 7, 7.0, "7", "7.0", ["8", "7"], ("7", "7.0"), np.array([7, 2])]
NO_TARGETS = [None, True, float("nan"), float("inf"), [], "", {"answer": 7}, r"\frac{", [None], ["7", None]]


@pytest.mark.parametrize("target", KINDS, ids=repr)
def test_b67_a_target_may_be_any_kind_of_number_or_a_list_of_them(target):
    assert Math()(r"\boxed{7}", target)["score"] == 1.0
    assert Math()(r"\boxed{9}", target)["score"] == 0.0
    assert gsm8k("#### 7", target) == {"score": 1.0, "extracted": "7"}
    assert gsm8k("#### 9", target)["score"] == 0.0
    Math().check_row({"target": target})
    Math().check_row({"ground_truth": target})


@pytest.mark.parametrize("target", NO_TARGETS, ids=repr)
def test_b67_a_target_that_nothing_could_match_is_an_error_before_any_rollout(target):
    for reward in (Math(), gsm8k):
        with pytest.raises(ValueError, match="target"):
            reward.check_row({"target": target})
        with pytest.raises(ValueError, match="target"):
            reward(r"\boxed{7}", target)
    with pytest.raises(ValueError, match="target"):
        Math().check_row({})


def test_gsm8k_wants_a_number_for_a_target():
    Math().check_row({"target": "yes"})
    with pytest.raises(ValueError, match="the target 'yes' is no number"):
        gsm8k.check_row({"target": "yes"})


@pytest.mark.parametrize(
    ("completion", "target", "score"),
    [
        (r"First \boxed{5}. Wrong; so the answer is \boxed{7}.", "7", 1.0),
        (r"First \boxed{5}. Wrong; so the answer is \boxed{7}.", "5", 0.0),
        (r"\boxed{004} ... \boxed{004}", "4", 1.0),
        (r"\fbox{7}", "7", 1.0),
        (r"\boxed{\text{13}}", "13", 1.0),
        ("Final Answer: **73**", "73", 1.0),
        ("Answer: $13$", "13", 1.0),
        (r"\boxed{x=3}", "3", 1.0),
        ("so 6*7=42\n#### 42\n" + "x" * 435, "42", 1.0),
        (r"\boxed{\frac12}", r"We get $\boxed{0.5}$.", 1.0),
        ("#### 18", "16 - 3 - 4 = 9, so 18\n#### 18", 1.0),
        ("no answer\nat all", "5", 0.0),
        ("", "5", 0.0),
    ],
)
def test_a_completion_is_graded_by_its_last_answer(completion, target, score):
    assert Math()(completion, target)["score"] == score


def test_b56_a_strict_reward_takes_nothing_but_a_box():
    assert Math(strict=True)("the value 7 appears", "7") == {"score": 0.0, "stopped": 0.0, "extracted": None}
    assert Math(strict=True)(r"the value is \boxed{7}", "7")["score"] == 1.0


def test_options_reach_the_comparison():
    assert Math(percent="hundredth")(r"\boxed{50\%}", "0.5")["score"] == 1.0
    assert Math(units="compared")(r"\boxed{5}", "5 cm")["score"] == 0.0
    assert Math(tolerance=0.01)(r"\boxed{3.14}", r"\pi")["score"] == 1.0


@pytest.mark.parametrize(
    ("completion", "target", "score"),
    [
        ("#### 1,200\n", "1200", 1.0),
        ("#### $1,200.00", "1200", 1.0),
        ("#### 12 is right, not 13", "12", 1.0),
        ("#### 11\n#### 12", "11", 0.0),
        (r"so \boxed{1{,}200}", 1200, 1.0),
        ("The answer is 1200 dollars.", 1200, 1.0),
        ("it is 76 - 25 = 51", "51", 1.0),
        ("x = 18", "18", 1.0),
        ("18.50 dollars", "18.5", 1.0),
        ("#### \u221218", "-18", 1.0),
        ("#### 18", "-18", 0.0),
        ("19, 18", "18", 0.0),
        ("no number", "0", 0.0),
    ],
)
def test_gsm8k_reads_the_number_that_a_completion_ends_in(completion, target, score):
    assert gsm8k(completion, target)["score"] == score


def test_gsm8k_can_ask_for_the_mark():
    assert gsm8k("it is 12", "12", strict=True) == {"score": 0.0, "extracted": None}
    assert gsm8k("#### 12", "12", strict=True)["score"] == 1.0


def test_exact_says_what_it_read_and_its_older_name_gives_the_bare_score():
    assert exact(" 7\n", 7.0) == {"score": 1.0, "extracted": "7"}
    assert exact_answer(" 7\n", 7.0) == 1.0
    with pytest.raises(ValueError, match="neither text nor a number"):
        exact.check_row({"target": None})


def test_a_manager_calls_the_math_reward_and_keeps_what_it_read():
    manager = DefaultManager(Math())
    right, wrong = manager.score(
        [Sample("", r"\boxed{7}", None, {"target": "7"}), Sample("", r"\boxed{8}", None, {"ground_truth": np.int64(7)})]
    )
    assert (right.score, right.extracted, right.components) == (1.0, "7", {"stopped": 0.0})
    assert (wrong.score, wrong.extracted, wrong.error) == (0.0, "8", None)
    manager.close()


def test_any_thread_may_compare_at_the_same_time():
    reward, verdicts = Math(), []

    def work():
        for k in range(40):
            verdicts.append(reward(rf"\boxed{{\frac{{\sqrt{{{k + 2}}}}}{{2}}+x}}", rf"x+\sqrt{{{k + 2}}}/2")["score"])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verdicts == [1.0] * 160


def test_every_reward_for_mathematics_has_its_name():
    offered = {"gsm8k", "math", "exact", "verl/gsm8k", "verl/math_dapo", "hendrycks_math", "math_verify"}
    assert offered <= set(registry.names("reward"))
    for name in offered:
        made = registry.get("reward", name)
        reward = made() if isinstance(made, type) else made
        reward.check_row({"target": "7"})
        with pytest.raises(ValueError, match="target"):
            reward.check_row({"target": None})
