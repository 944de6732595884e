import pytest

from rlcore.data import check_room, fit_prompts
from rlcore.errors import DataError

TEN = list(range(10))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("left", [4, 5, 6, 7, 8, 9]), ("right", [0, 1, 2, 3, 4, 5]), ("middle", [0, 1, 2, 7, 8, 9])],
)
def test_b49_a_long_prompt_is_cut_where_the_policy_says(policy, expected):
    fitted = fit_prompts([TEN, [1]], 6, too_long=policy)
    assert (fitted.tokens, fitted.rows, fitted.dropped, fitted.shortened) == ([expected, [1]], [0, 1], 0, 1)


def test_b49_an_odd_limit_keeps_its_number_of_tokens():
    assert fit_prompts([TEN], 5, too_long="middle").tokens == [[0, 1, 2, 8, 9]]
    assert fit_prompts([TEN], 1, too_long="middle").tokens == [[0]]
    assert fit_prompts([TEN], 1, too_long="left").tokens == [[9]]


def test_b49_the_error_names_row_and_lengths():
    with pytest.raises(DataError, match=r"row 1: its prompt has 10 tokens, more than max_prompt_tokens=6"):
        fit_prompts([[1], TEN], 6)


def test_b49_a_filter_drops_rows_and_counts_them():
    fitted = fit_prompts([TEN, [1, 2], TEN], 6, too_long="filter")
    assert (fitted.rows, fitted.tokens, fitted.dropped) == ([1], [[1, 2]], 2)


def test_no_prompt_left_after_filtering_is_an_error():
    with pytest.raises(
        DataError, match=r"no prompt left: all 2 are longer than max_prompt_tokens=6 \(the shortest has 10\)"
    ):
        fit_prompts([TEN, [*TEN, 1]], 6, too_long="filter")


@pytest.mark.parametrize("length", [9, 10])
def test_a_prompt_at_the_limit_is_left_alone(length):
    assert fit_prompts([TEN[:length]], 10).tokens == [TEN[:length]]


def test_b49_prompt_and_response_must_fit_into_the_model_together():
    check_room(6, 4, 10)
    check_room(6, 400, None)
    with pytest.raises(
        DataError, match="max_prompt_tokens=6 and max_new_tokens=5 make 11 tokens, more than the model's 10"
    ):
        check_room(6, 5, 10)


def test_an_unknown_policy_is_refused():
    with pytest.raises(DataError, match=r"unknown long_prompts 'center'"):
        fit_prompts([TEN], 6, too_long="center")
