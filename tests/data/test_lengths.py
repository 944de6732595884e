import pytest

from rlcore.data import check_room, fit_prompt
from rlcore.errors import DataError

TEN = list(range(10))


@pytest.mark.parametrize(
    ("policy", "limit", "expected"),
    [
        ("left", 6, [4, 5, 6, 7, 8, 9]),
        ("right", 6, [0, 1, 2, 3, 4, 5]),
        ("middle", 6, [0, 1, 2, 7, 8, 9]),
        ("middle", 5, [0, 1, 2, 8, 9]),
        ("middle", 1, [0]),
        ("left", 1, [9]),
    ],
)
def test_b49_a_long_prompt_is_cut_where_the_policy_says(policy, limit, expected):
    assert fit_prompt(TEN, limit, too_long=policy) == expected


def test_b49_the_error_names_row_and_lengths():
    with pytest.raises(DataError, match=r"row 1: its prompt has 10 tokens, more than max_prompt_tokens=6"):
        fit_prompt(TEN, 6, too_long="error", row=1)


def test_b49_a_filter_drops_what_is_too_long():
    assert fit_prompt(TEN, 6, too_long="filter") is None
    assert fit_prompt([1, 2], 6, too_long="filter") == [1, 2]


@pytest.mark.parametrize("length", [9, 10])
def test_a_prompt_at_the_limit_is_left_alone(length):
    assert fit_prompt(TEN[:length], 10, too_long="error") == TEN[:length]


def test_b49_prompt_and_response_must_fit_into_the_model_together():
    check_room(6, 4, 10)
    check_room(6, 400, None)
    with pytest.raises(
        DataError, match="max_prompt_tokens=6 and max_new_tokens=5 make 11 tokens, more than the model's 10"
    ):
        check_room(6, 5, 10)


def test_an_unknown_policy_is_refused():
    with pytest.raises(DataError, match=r"unknown long_prompts 'center'"):
        fit_prompt(TEN, 6, too_long="center")
