import json

import pytest

from rlcore.errors import ConfigError
from rlcore_rewards.structure import JsonFields

TARGET = {"company": "Example Corp", "total": 1234.5}
ROWS = [{"item": "a", "amount": 1000}, {"item": "b", "amount": "$234.50"}]


def page(rows, **more):
    return "```json\n" + json.dumps({"company": "Example  CORP", "rows": rows, **more}) + "\n```"


def test_a_table_whose_amounts_add_up_is_right():
    graded = JsonFields(sums={"total": "rows.amount"})(page(ROWS), TARGET)
    assert graded["score"] == 1.0
    assert (graded["field.company"], graded["sum.total"], graded["found"]) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    "completion",
    [
        page([]),
        page(ROWS[:1]),
        page([*ROWS, {"item": "c", "amount": 0.01}]),
        page([*ROWS, {"item": "c"}]),
        page([*ROWS, {"item": "c", "amount": "n/a"}]),
        page([*ROWS, {"item": "c", "amount": None}]),
        page([*ROWS, {"item": "c", "amount": False}]),
        page(ROWS).replace("1000", "1e999"),
        page(ROWS).replace("1000", "9" * 390),
        page("1234.5"),
        page(1234.5),
        page([], total=1234.5),
        '{"total": 1234.5, "company": "Example Corp"}',
        "403 Forbidden: access to this page is blocked",
        "[]",
        "",
    ],
)
def test_an_empty_table_a_blocked_page_or_a_wrong_sum_is_worth_nothing(completion):
    assert JsonFields(sums={"total": "rows.amount"})(completion, TARGET)["score"] == 0.0


def test_an_empty_table_is_wrong_even_for_a_total_of_nothing():
    reward = JsonFields(sums={"total": "rows.amount"})
    assert reward('{"rows": []}', {"total": 0})["score"] == 0.0
    assert reward('{"rows": [{"amount": 5}, {"amount": -5}]}', {"total": 0})["score"] == 1.0


def test_sums_reach_through_lists_within_lists():
    reward = JsonFields(sums={"total": "pages.rows.amount"})
    text = '{"pages": [{"rows": [{"amount": 0.1}, {"amount": 0.2}]}, {"rows": []}]}'
    assert reward(text, {"total": 0.1 + 0.2})["score"] == 1.0
    assert reward(text, {"total": 0.31})["score"] == 0.0


@pytest.mark.parametrize(
    ("found", "wanted", "score"),
    [
        ({"a": 1, "b": "x"}, {"a": 1, "b": "x"}, 1.0),
        ({"a": 1, "b": "y"}, {"a": 1, "b": "x"}, 0.5),
        ({"a": 1}, {"a": 1, "b": "x"}, 0.5),
        ({"a": 1, "c": 9}, {"a": 1}, 1.0),
        ({"a": "1,000"}, {"a": 1000}, 1.0),
        ({"a": 1.001}, {"a": 1}, 0.0),
        ({"a": True}, {"a": 1}, 0.0),
        ({"a": 1}, {"a": True}, 0.0),
        ({"a": None}, {"a": None}, 1.0),
        ({}, {"a": None}, 0.0),
        ({"a": " X  y"}, {"a": "x Y"}, 1.0),
        ({"a": 7}, {"a": "7"}, 1.0),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, 0.5),
        ({"a": [1, 2]}, {"a": [1, 2]}, 1.0),
        ({"a": [2, 1]}, {"a": [1, 2]}, 0.0),
        ({"a": [1]}, {"a": [1, 2]}, 0.5),
        ({"a": [1, 2, 3, 4]}, {"a": [1, 2]}, 0.5),
        ({"a": []}, {"a": []}, 1.0),
        ({"a": {"0": 1}}, {"a": [1]}, 0.0),
        ({"a": "1"}, {"a": [1]}, 0.0),
    ],
)
def test_fields_are_scored_one_by_one(found, wanted, score):
    assert JsonFields()(json.dumps(found), wanted)["score"] == score
    assert JsonFields()(json.dumps(found), json.dumps(wanted))["score"] == score


def test_numbers_may_be_near():
    reward = JsonFields(tolerance=0.01)
    assert reward('{"a": 100.9}', {"a": 100})["score"] == 1.0
    assert reward('{"a": 101.1}', {"a": 100})["score"] == 0.0


@pytest.mark.parametrize("target", [None, "text", {}, [1], {"a": 1}, {"total": "much"}, {"total": True}])
def test_a_target_without_the_number_of_a_sum_is_found_before_any_completion(target):
    with pytest.raises(ValueError, match="target"):
        JsonFields(sums={"total": "rows.amount"}).check_row({"target": target})


@pytest.mark.parametrize("options", [{"tolerance": -0.1}, {"tolerance": 1.0}, {"sums": {"total": "rows..a"}}])
def test_options_that_cannot_be_are_errors_of_the_configuration(options):
    with pytest.raises(ConfigError, match="json_fields"):
        JsonFields(**options)
