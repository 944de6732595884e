from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcore_rewards.form import think_answer
from rlcore_rewards.numeric import numeric_answer
from rlcore_rewards.text import exact_answer


@pytest.mark.parametrize(
    ("completion", "target", "score"),
    [
        ("The answer is 18.", "18", 1.0),
        ("It costs $18.00", "18", 1.0),
        ("18.50 dollars", "18.5", 1.0),
        ("so 1,200", "1200", 1.0),
        ("#### 1,200\n", "1200", 1.0),
        ("1200", "1,200", 1.0),
        ("-3", "-3", 1.0),
        ("\u22123", "-3", 1.0),
        ("-$5", "-5", 1.0),
        ("$-5", "-5", 1.0),
        ("+7", "7", 1.0),
        ("3", "-3", 0.0),
        ("10-4", "4", 1.0),
        ("10-4", "-4", 0.0),
        ("76 - 25 = 51", "51", 1.0),
        ("51 is what 76 - 25 makes", "51", 0.0),
        ("#### 12", "12", 1.0),
        ("#### 12 is right, not 13", "12", 1.0),
        ("#### 11\n#### 12", "12", 1.0),
        ("12 ####", "12", 0.0),
        ("1,2", "2", 1.0),
        ("1,2000", "2000", 1.0),
        ("**73**", "73", 1.0),
        ("\\boxed{7}", "7", 1.0),
        ("x=3", "3", 1.0),
        ("50%", "50", 1.0),
        ("0.1", 0.1, 1.0),
        ("0.3", 0.1 + 0.2, 0.0),
        (".5", "0.5", 1.0),
        ("1/2", "0.5", 1.0),
        ("0.5", "1/2", 1.0),
        ("1/3", "0.333", 0.0),
        ("24/2", "12", 0.0),
        ("24/2 = 12", "12", 1.0),
        ("1/0", "0.5", 0.0),
        ("007", "7", 1.0),
        ("x2", "2", 0.0),
        ("1e3", "3", 0.0),
        ("Rs.51", "51", 1.0),
        ("no number", "0", 0.0),
        ("", "0", 0.0),
        ("9" * 5000, "9", 0.0),
        ("7", "12 #### 7", 1.0),
    ],
)
def test_a_numeric_answer_is_the_last_number_compared_exactly(completion, target, score):
    assert numeric_answer(completion, target) == score


@pytest.mark.parametrize(
    "target", [7, 7.0, np.int64(7), np.float32(7.0), np.str_("7"), "7", "7.0", ["8", "7"], (7,), np.array([8, 7])]
)
def test_b67_a_target_may_be_any_kind_of_number_or_a_list_of_them(target):
    assert numeric_answer("so it is 7.", target) == 1.0
    assert numeric_answer("so it is 9.", target) == 0.0


@pytest.mark.parametrize("target", [None, "seven", "", [], {"target": 7}, True, float("nan"), "1 2", np.array(["a"])])
def test_a_target_that_is_no_number_is_an_error_and_not_a_wrong_answer(target):
    with pytest.raises(ValueError, match="target"):
        numeric_answer("7", target)


def test_b58_a_marked_answer_is_found_however_much_follows():
    assert numeric_answer("6*7=42\n#### 42\n" + "and 7 more " * 40, "42") == 1.0


@given(
    st.fractions(max_denominator=1), st.sampled_from(["{}", "so {}.", "#### {}", "**{}**", "${}", "{}.0", "{}.00 each"])
)
def test_any_whole_number_equals_itself_in_any_dress(number, dress):
    assert numeric_answer(dress.format(number), str(number)) == 1.0
    assert numeric_answer(dress.format(number + 1), str(number)) == 0.0


@given(st.text(alphabet="0123456789$,./#-+%= xe\n\u2212\u0663<>", max_size=40))
def test_no_completion_raises(text):
    assert numeric_answer(text, Fraction(1, 3)) in (0.0, 1.0)
    assert think_answer(text) == 0.0
    assert exact_answer(text, "x") in (0.0, 1.0)


@pytest.mark.parametrize(
    ("completion", "target", "score"),
    [(" 7 \n", "7", 1.0), ("7", 7, 1.0), ("7", 7.0, 1.0), ("7.0", "7", 0.0), ("b", ["a", "b"], 1.0), ("7 ", " 7", 1.0)],
)
def test_an_exact_answer_is_the_whole_text(completion, target, score):
    assert exact_answer(completion, target) == score


@pytest.mark.parametrize("target", [None, True, {"a": 1}, []])
def test_an_exact_answer_needs_a_target(target):
    with pytest.raises(ValueError, match="neither text nor a number|empty list"):
        exact_answer("x", target)


@pytest.mark.parametrize(
    "fake",
    [
        "<think>a</think><think>b</think><answer>1</answer>",
        "<think>a</think><answer>1</answer><answer>2</answer>",
        "<think></think><answer>1</answer>",
        "<think> \n</think><answer>1</answer>",
        "<think>a</think><answer> </answer>",
        "<think>a</think> so <answer>1</answer>",
        "<think>a</think><answer>1</answer> done",
        "well <think>a</think><answer>1</answer>",
        "<answer>1</answer>",
        "<think>a<answer>1</answer></think>",
        "<answer>1</answer><think>a</think>",
        "<think>a</think><answer>1",
        "<think>a</think></think><answer>1</answer>",
        "</think>a<think><answer>1</answer>",
        "<THINK>a</THINK><answer>1</answer>",
        "",
    ],
)
def test_b70_the_form_is_not_to_be_faked(fake):
    assert think_answer(fake) == 0.0


@pytest.mark.parametrize(
    "good",
    [
        "<think>a</think><answer>1</answer>",
        "<think>\na\nb\n</think>\n<answer>\n1\n</answer>",
        "<think>a</think><answer>1</answer>\n",
        "\n<think>a</think> <answer>1</answer>",
        "<think>a</think><answer>1</answer><|im_end|>",
        "<think>a</think><answer>1</answer></s> and <answer>more</answer>",
        "<think>a < b</think><answer>1</answer>",
    ],
)
def test_b71_good_forms_are_not_rejected(good):
    assert think_answer(good) == 1.0


def test_b71_the_ends_of_turns_are_an_option():
    text = "<think>a</think><answer>1</answer>[END] x"
    assert (think_answer(text), think_answer(text, end_tokens=("[END]",))) == (0.0, 1.0)
