"""Scores worked out from the rules of the peers as their own files state them (verl 0.9, MATH, math-verify 0.9)."""

import pytest

from rlcore_answers.peers import MathVerify, hendrycks_math, verl_gsm8k, verl_math_dapo


@pytest.mark.parametrize(
    ("completion", "target", "score"),
    [
        ("so\n#### 18", "18", 1.0),
        ("#### 1,800", "1800", 1.0),
        ("#### $18", "18", 0.0),
        ("#### 18.00", "18", 0.0),
        ("#### 17\n#### 18", "18", 1.0),
        ("it is 18", "18", 0.0),
        ("it is 18.", "18", 0.0),
        ("it is 18 .", "18", 0.0),
        ("#### 18" + "x" * 300, "18", 0.0),
        ("#### -3", "-3", 1.0),
        ("#### 18", 18, 1.0),
        ("none", "18", 0.0),
    ],
)
def test_verl_gsm8k_compares_the_text_of_the_last_number(completion, target, score):
    assert verl_gsm8k(completion, target)["score"] == score


@pytest.mark.parametrize(
    ("completion", "target", "score", "read"),
    [
        ("Answer: 18", "18", 1.0, "18"),
        ("answer : $18$", "18", 1.0, "18"),
        ("Answer: 18 dollars", "18", 1.0, "18"),
        (r"Answer: \frac12", r"\frac{1}{2}", 1.0, r"\frac{1}{2}"),
        ("Answer: 1,800", "1800", 1.0, "1800"),
        ("Answer: x = 5", "5", 1.0, "5"),
        (r"Answer: \boxed{5}", "5", 1.0, "5"),
        (r"Answer: \text{yes}", "yes", 1.0, "yes"),
        ("Answer: 17\nAnswer: 18", "18", 1.0, "18"),
        ("Answer: 18.0", "18", -1.0, "18.0"),
        (r"so \boxed{18}", "18", 1.0, "18"),
        (r"so \boxed{18}" + "x" * 100, "18", -1.0, None),
        (r"Answer: 17 \boxed{18}", "18", -1.0, r"17\boxed{18}"),
        ("Answer: 18" + "x" * 300, "18", -1.0, None),
        ("18", "18", -1.0, None),
    ],
)
def test_verl_math_dapo_gives_plus_or_minus_one_by_the_answer_line(completion, target, score, read):
    graded = verl_math_dapo(completion, target)
    assert (graded["score"], graded["acc"]) == (score, float(score > 0))
    assert read is None or graded["extracted"] in (read, read.replace(r"\boxed{18}", "18"))


@pytest.mark.parametrize(
    ("completion", "target", "score"),
    [
        (r"\boxed{\frac12}", r"\frac{1}{2}", 1.0),
        (r"\boxed{0.5}", r"\frac{1}{2}", 1.0),
        (r"\boxed{1/2}", r"\frac{1}{2}", 1.0),
        (r"\boxed{x = 5}", "5", 1.0),
        (r"\boxed{x_1=5}", "5", 0.0),
        (r"\boxed{x=5}", "5", 1.0),
        (r"\boxed{5 \text{ cm}}", "5", 1.0),
        (r"\boxed{90^\circ}", "90", 1.0),
        (r"\boxed{50\%}", "50", 1.0),
        (r"\boxed{\sqrt3}", r"\sqrt{3}", 1.0),
        (r"\boxed{\left(1, 2\right)}", "(1,2)", 1.0),
        (r"\boxed{.5}", "0.5", 1.0),
        (r"\fbox{7}", "7", 0.0),
        (r"$\boxed 7$", "7", 1.0),
        (r"\boxed{5} \boxed{7}", "7", 1.0),
        (r"\boxed{7} \boxed{", "7", 0.0),
        (r"\boxed{0.25}", r"\frac{1}{4}", 0.0),
        (r"\boxed{1,000}", "1000", 0.0),
        ("7", "7", 0.0),
    ],
)
def test_hendrycks_math_compares_texts_in_the_normal_form_of_math(completion, target, score):
    assert hendrycks_math(completion, target)["score"] == score


@pytest.mark.slow
def test_math_verify_scores_as_it_does_inside_verl():
    reward = MathVerify(processes=1)
    cases = [
        (r"so \boxed{7}", "7", 1.0),
        (r"so \boxed{\frac{1}{2}}", "0.5", 1.0),
        (r"First \boxed{5}. Wrong; so the answer is \boxed{7}.", "7", 0.0),  # read as the set of both
        (r"\fbox{7}", "7", 0.0),
        (r"\boxed{0<x<3}", "(0,3)", 0.0),
        (r"\boxed{(0,3)}", "0<x<3", 1.0),
        ("nothing", "7", 0.0),
    ]
    assert [reward(completion, target)["score"] for completion, target, _ in cases] == [score for *_, score in cases]
    reward.close()


@pytest.mark.parametrize("policy", [verl_gsm8k, verl_math_dapo, hendrycks_math])
def test_a_row_without_a_target_is_an_error_even_if_the_completion_has_no_answer(policy):
    with pytest.raises(ValueError, match="None"):
        policy("no answer at all", None)
