import time

import numpy as np
import pytest

from rlcore.protocols import Sample
from rlcore_answers.arithmetic import countdown
from rlcore_rewards.managers import DefaultManager

PROBLEM = {"target": 22, "numbers": [3, 5, 7]}


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("<think>3*5 is 15, and 7</think><answer>3*5+7</answer>", 1.0),
        ("<answer>\n(3 * 5) + 7 = 22\n</answer><|im_end|>", 1.0),
        ("<answer>$3 \\times 5 + 7$</answer>", 1.0),
        ("<answer>3 x 5 + 7</answer>", 1.0),
        ("<answer>5*5-3</answer> no, <answer>7+3\u00d75</answer>", 1.0),
        ("3*5+7", 1.0),
        ("<answer>3*5+7</answer> no, <answer>22</answer>", 0.0),
        ("<answer>22</answer>", 0.0),
        ("<answer>3*5+7+0</answer>", 0.0),
        ("<answer>1/0</answer>", 0.0),
        ("<answer>9**9**9**9</answer>", 0.0),
        ("<answer>22 = 3*5+7</answer>", 0.0),
        ("<answer>3*5+7", 0.0),
        ("It is 3*5+7.", 0.0),
        ("<answer></answer>", 0.0),
        ("", 0.0),
    ],
)
def test_what_models_write_is_read_as_an_expression(completion, score):
    assert countdown(completion, PROBLEM)["score"] == score
    assert countdown(completion, "22", nums=np.array([3, 5, 7]))["score"] == score


def test_it_says_what_it_read():
    assert countdown("<answer> 3*5+7 = 22 </answer>", 22, [3, 5, 7])["extracted"] == "3*5+7"
    assert countdown("<answer>3*5+7", 22, [3, 5, 7])["extracted"] is None


@pytest.mark.parametrize(
    "data", [{"target": None, "numbers": [1]}, {"target": 3}, {"target": {"target": 3}}, {"target": 3, "nums": ["x"]}]
)
def test_a_row_that_nothing_could_answer_is_found_before_a_run(data):
    with pytest.raises(ValueError, match="no number"):
        countdown.check_row(data)


def test_a_megabyte_of_tags_is_read_in_time():
    start = time.process_time()
    for text in ("<answer>" * 130_000, "<answer>1</answer>" * 60_000, "(" * 1_000_000):
        assert countdown(text, 22, [3, 5, 7])["score"] == 0.0
    assert time.process_time() - start < 5


def test_a_manager_fills_it_from_the_raw_columns():
    sample = Sample("", "<answer>3*5+7</answer>", None, {"target": 22, "nums": [3, 5, 7]})
    manager = DefaultManager(countdown)
    assert [grade.score for grade in manager.score([sample])] == [1.0]
    manager.close()
