import time

import pytest

from rlcore_answers.extraction import STRICT, extract


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"First \boxed{5}. Wrong; so the answer is \boxed{7}.", "7"),
        (r"\boxed{840}. ... **Final Answer** \boxed{840}", "840"),
        (r"\boxed{004} ... \boxed{004}", "004"),
        (r"\boxed{1}\boxed{2}", "2"),
    ],
)
def test_b55_the_last_box_wins_and_boxes_are_never_glued_together(text, answer):
    assert extract(text) == answer
    assert extract(text, forms=STRICT) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\fbox{7}", "7"),
        (r"\boxed{\text{13}}", r"\text{13}"),
        ("Final Answer: **73**", "73"),
        ("Answer: $13$", "13"),
        (r"\boxed{x=3}", "x=3"),
    ],
)
def test_b56_other_forms_of_answers(text, answer):
    assert extract(text) == answer


def test_b56_a_number_in_a_sentence_is_no_answer_where_a_box_is_asked_for():
    assert extract("the value 7 appears", forms=STRICT) is None


def test_b58_a_marked_answer_is_found_however_much_follows():
    assert extract("6*7=42\n#### 42\n" + "x" * 435) == "42"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{ 5 }", "5"),
        (r"$\boxed 7$", "7"),
        (r"\framebox{204}", "204"),
        (r"\boxed{x + \boxed{5}}", "5"),
        (r"\boxed{5}. No wait, it is \boxed{", None),
        (r"\boxed{5}. No wait, it is \boxed{}", None),
        (r"\boxed{5", None),
        (r"\boxed{4 and \boxed{7}", "7"),
        (r"an open { before \boxed{7}", "7"),
        (r"\boxed{\left\{ x \right\}}", r"\left\{ x \right\}"),
        (r"\boxed{a\\}", r"a\\"),
    ],
)
def test_a_box_ends_where_its_brace_does(text, answer):
    assert extract(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Final Answer: The final answer is $5$. I hope it is correct.", "5"),
        ("The answer is 5 because 3+2.", "5"),
        ("so the answer is: 42.", "42"),
        ("**Final Answer**\n\n42", "42"),
        ("**Answer:** 7", "7"),
        ("**Answer**: 7", "7"),
        ("The final answer is\n\n$$x = 4$$", "x = 4"),
        ("The answer is $\\frac{1}{2}$.", r"\frac{1}{2}"),
        ("Answer: $(1,2)$ and $(3,4)$", "$(1,2)$ and $(3,4)$"),
        ("Final Answer: The largest $n$ is 34.", "34"),
        ("Answer: 3.14", "3.14"),
        ("Answer (in cm): 5", "5"),
        ("The answers are 1, 2, and 3.", "1, 2, and 3"),
        ("The correct answer is (B) Paris.", "(B) Paris"),
        ("The answer is 4. No: the answer is 5.", "5"),
        ("ANSWER\uff1a 8", "8"),
        ("The answer is 12, not 13.", "12"),
        ("The answer is:\n\n$$\n12\n$$\nas $3+9$ shows", "12"),
        ("as $a = 3$\n### Answer\n12", "12"),
        ("The correct option is B.", "B"),
        ("The answer is *5*.", "5"),
    ],
)
def test_an_answer_that_is_announced_is_what_is_said_up_to_its_reason(text, answer):
    assert extract(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>12</answer>", "12"),
        ("<answer>1</answer> <answer>2</answer>", "2"),
        (r"<answer>so \boxed{3}</answer>", "3"),
        ("<answer>$4$</answer>", "4"),
        ("#### $1,200", "$1,200"),
        ("#### 11\n#### 12", "12"),
        ("#### 72, altogether.", "72"),
        ("It is\n**73**", "73"),
        ("first\nso $x = 2$ and\nthen $x = 3$", "x = 3"),
        ("it costs $5 and\nthen $6 more", "$6"),
        ("42", "42"),
        ("12 apples", "12 apples"),
        ("So it is 12", "12"),
        ("we get 3/4.", "3/4"),
        ("\u041e\u0442\u0432\u0435\u0442: 42", "42"),
        ("no solution", "no solution"),
        ("a long\nstory about 3 of 12 sheep", "12"),
        ("a long\nstory 10-4", "4"),
        ("a long\nstory: -4", "-4"),
        ("no number\nanywhere", None),
        ("", None),
        ("<answer></answer>", None),
    ],
)
def test_other_forms_in_the_order_in_which_they_are_believed(text, answer):
    assert extract(text) == answer


@pytest.mark.parametrize(
    "stop", ["<|im_end|>", "</s>", "<|eot_id|>", "<|endoftext|>", "<\uff5cend\u2581of\u2581sentence\uff5c>"]
)
def test_what_stands_behind_a_stop_token_is_not_read(stop):
    assert extract(rf"\boxed{{5}}{stop}\boxed{{7}}") == "5"
    assert extract(rf"{stop}\boxed{{7}}") is None
    assert extract(rf"\boxed{{5}}{stop}\boxed{{7}}", stop_tokens=()) == "7"


MEGABYTE = 10**6
LONG = {
    "braces": "{" * MEGABYTE,
    "closed braces": "{" * (MEGABYTE // 2) + "}" * (MEGABYTE // 2),
    "boxes": "\\boxed{" * (MEGABYTE // 7),
    "closed boxes": "\\boxed{" * (MEGABYTE // 8) + "}" * (MEGABYTE // 8),
    "a box of braces": "\\boxed{" + "{" * MEGABYTE,
    "dollars": "$" * MEGABYTE,
    "open formulas": "\\(" * (MEGABYTE // 2),
    "backslashes": "\\" * MEGABYTE,
    "stars": "*" * MEGABYTE,
    "marks": "#" * MEGABYTE,
    "tags": "<answer>" * (MEGABYTE // 8),
    "announcements": "answer is " * (MEGABYTE // 10),
    "answer and spaces": "answer" + " " * MEGABYTE,
    "answers with brackets": "answer (" * (MEGABYTE // 8),
    "digits": "1" * MEGABYTE,
    "thousands": "1,111" * (MEGABYTE // 5),
    "signs": "-" * MEGABYTE,
    "fractions": "1/" * (MEGABYTE // 2),
    "reasons": "answer: " + ", " * (MEGABYTE // 2),
    "stops": "<|" * (MEGABYTE // 2),
}


@pytest.mark.parametrize("name", LONG)
def test_a_megabyte_is_searched_in_linear_time(name):
    start = time.process_time()
    extract(LONG[name])
    assert time.process_time() - start < 2.5
