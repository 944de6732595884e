import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcore_rewards.text import exact_match, token_f1


@pytest.mark.parametrize(
    ("completion", "target", "score"),
    [
        ("The Eiffel Tower.", "eiffel tower", 1.0),
        ("eiffel  tower", ["Big Ben", "the Eiffel Tower"], 1.0),
        ("eiffel", "eiffel tower", 0.0),
        ("42", 42, 1.0),
        ("the", "", 1.0),
        ("", "x", 0.0),
        ("theatre", "atre", 0.0),
        ("x", np.array(["x", "y"]), 1.0),
    ],
)
def test_an_exact_match_is_one_of_the_targets_in_normal_form(completion, target, score):
    assert exact_match(completion, target)["score"] == score


@pytest.mark.parametrize(
    ("completion", "target", "precision", "recall"),
    [
        ("cat sat", "the cat sat on mat", 1.0, 0.5),
        ("cat cat cat", "cat", 1 / 3, 1.0),
        ("dog", "cat", 0.0, 0.0),
        ("", "", 1.0, 1.0),
        ("", "cat", 0.0, 0.0),
        ("a b c d", ["z", "b c"], 2 / 3, 1.0),
    ],
)
def test_f1_is_of_the_words_that_both_have(completion, target, precision, recall):
    graded = token_f1(completion, target)
    both = precision + recall
    assert graded["score"] == pytest.approx(2 * precision * recall / both if both else 0.0)
    assert (graded["precision"], graded["recall"]) == pytest.approx((precision, recall))


def test_a_tag_says_where_the_answer_stands():
    text = "<answer>no</answer> or <answer> Paris </answer> I think"
    assert exact_match(text, "paris", tag="answer") == {"score": 1.0, "extracted": "Paris"}
    assert token_f1(text, "paris", tag="answer")["score"] == 1.0
    for cut in ("Paris", "<answer>Paris", "Paris</answer>", ""):
        assert exact_match(cut, "paris", tag="answer") == {"score": 0.0, "extracted": None}
        assert token_f1(cut, "paris", tag="answer")["extracted"] is None


@pytest.mark.parametrize("target", [None, [], True, {"a": 1}, [None], ["x", True]])
def test_a_target_that_is_no_text_is_found_before_any_completion(target):
    for reward in (exact_match, token_f1):
        with pytest.raises(ValueError, match="target"):
            reward.check_row({"ground_truth": target})
        with pytest.raises(ValueError, match="target"):
            reward("x", target)


@given(st.text(max_size=30), st.text(max_size=30))
def test_f1_is_between_none_and_a_match_and_the_same_both_ways(one, other):
    score = token_f1(one, other)["score"]
    assert 0.0 <= score <= 1.0
    assert score == token_f1(other, one)["score"]
    assert (score == 1.0) >= (exact_match(one, other)["score"] == 1.0)
