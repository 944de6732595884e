import time

import pytest

from rlcore_answers.arithmetic import LONGEST_EXPRESSION, evaluate, expression_answer, tokenize


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("3*5+7", 1.0),
        ("(3*5)+7", 1.0),
        ("22", 0.0),
        ("5*5-3", 0.0),
        ("3*5+7+0", 0.0),
        ("1/0", 0.0),
        ("9**9**9**9", 0.0),
        ('__import__("os").system("touch P")', 0.0),
    ],
)
def test_b64_countdown_answers_are_read_and_never_run(answer, score, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    start = time.process_time()
    assert expression_answer(answer, 22, [3, 5, 7]) == score
    assert time.process_time() - start < 0.1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("answer", ["7 + 5*3", " 3*5+7 ", "7-(0-5*3)*1", "((3*5+7))", "5*3+7\n"])
def test_what_counts_as_an_expression(answer):
    assert expression_answer(answer, 22) == float("\n" not in answer)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "-3",
        "+3",
        "3+",
        "3 3",
        "03",
        "3(3)",
        "(3",
        "3)",
        "()",
        "3.0",
        "3=3",
        "3//1",
        "3 is it",
        "\u0663",
        "\u00b3",
        "3e0",
        "0x3",
    ],
)
def test_what_is_no_expression_is_worth_nothing(answer):
    assert expression_answer(answer, 3, [3]) == 0.0


@pytest.mark.parametrize(
    ("text", "value"),
    [("2-3-4", -5), ("2*3+4", 10), ("2+3*4", 14), ("8/4/2", 1), ("8/3*3", 8), ("2-(3-4)", 3), ("0*5", 0)],
)
def test_signs_bind_as_usual_and_worth_is_exact(text, value):
    assert evaluate(tokenize(text)) == value


def test_each_number_is_used_as_often_as_it_stands_there():
    assert expression_answer("2+2", 4, [2, 2]) == 1.0
    assert expression_answer("2+2", 4, [2]) == 0.0
    assert expression_answer("2*2", 4, [2, 2, 1]) == 0.0
    assert expression_answer("1+3", 4, [3, 1]) == 1.0
    assert expression_answer("12", 12, [1, 2]) == 0.0


def test_targets_and_numbers_may_be_numbers_or_texts_that_are_numbers():
    assert expression_answer("3*5+7", "22", ["3", "5", "7"]) == 1.0
    assert expression_answer("1/2", 0.5) == 1.0


def test_a_target_that_is_no_number_is_the_datas_fault_and_said():
    with pytest.raises(ValueError, match="the target 'many' is no number"):
        expression_answer("1", "many")


def test_hostile_answers_end_quickly():
    start = time.process_time()
    for answer in ("(" * 10**6, "9*" * 10**6 + "9", "9" * 10**6, "9" * LONGEST_EXPRESSION, "(" * LONGEST_EXPRESSION):
        assert expression_answer(answer, 1) == 0.0
    depth = LONGEST_EXPRESSION // 2 - 1
    assert expression_answer("(" * depth + "1" + ")" * depth, 1) == 1.0
    assert time.process_time() - start < 0.1
