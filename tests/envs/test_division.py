import pytest

from rlcore.data.layouts import RowMaker
from rlcore.errors import DataError
from rlcore_envs.data_report import DataReport, describe_type
from rlcore_envs.division import split_by_column, split_by_last_digit, split_by_share


def rows(count, *, repeat=1, **columns):
    return [
        {"prompt": f"Question {i // repeat}?", "target": str(i)} | {n: c(i) for n, c in columns.items()}
        for i in range(count)
    ]


def test_shares_are_met_and_every_row_is_in_one_part():
    found = split_by_share(rows(100), {"train": 0.8, "dev": 0.1, "test": 0.1}, seed=0)
    assert {name: len(places) for name, places in found.parts.items()} == {"train": 80, "dev": 10, "test": 10}
    assert sorted(place for places in found.parts.values() for place in places) == list(range(100))
    assert all(places == sorted(places) for places in found.parts.values())


def test_a_split_depends_on_seed_and_content_not_on_order():
    data = rows(60)
    first = split_by_share(data, {"a": 0.5, "b": 0.5}, seed=1).parts
    assert split_by_share(data, {"a": 0.5, "b": 0.5}, seed=1).parts == first
    assert split_by_share(data, {"a": 0.5, "b": 0.5}, seed=2).parts != first
    turned = split_by_share(data[::-1], {"a": 0.5, "b": 0.5}, seed=1).parts
    assert sorted(59 - place for place in turned["a"]) == first["a"]


def test_neither_a_question_nor_a_group_straddles():
    data = rows(90, repeat=3, source=lambda i: (i + 1) // 3)
    data[0]["prompt"] = "question 0 ?!"  # the same in other spelling
    for seed in range(5):
        places = split_by_share(data, {"train": 0.6, "held": 0.4}, seed=seed).parts
        questions = [{data[i]["prompt"].lower().strip("?! ") for i in part} for part in places.values()]
        assert not questions[0] & questions[1]
        # Groups and questions overlap like bricks, so that all rows are one block.
        with pytest.raises(DataError, match="part 'held' of 90 rows would be empty"):
            split_by_share(data, {"train": 0.6, "held": 0.4}, seed=seed, group="source")
    linked = rows(90, repeat=3, source=lambda i: i // 9)
    places = split_by_share(linked, {"train": 0.6, "held": 0.4}, seed=0, group="source").parts
    sources = [{linked[i]["source"] for i in part} for part in places.values()]
    assert not sources[0] & sources[1]


def test_a_share_left_of_one_goes_to_no_part():
    found = split_by_share(rows(100), {"a": 0.1, "b": 0.2}, seed=0).parts
    assert {name: len(places) for name, places in found.items()} == {"a": 10, "b": 20}


@pytest.mark.parametrize("shares", [{}, {"a": 0}, {"a": -0.5}, {"a": 0.7, "b": 0.4}])
def test_shares_that_make_no_split_are_refused(shares):
    with pytest.raises(DataError, match="shares must be above 0 and add up to at most 1"):
        split_by_share(rows(10), shares, seed=0)


def test_by_a_column_a_repeated_question_stays_where_it_stands_first():
    data = rows(6, extra_info=lambda i: {"split": "train" if i < 4 else "test"})
    data[5]["prompt"] = data[0]["prompt"]
    found = split_by_column(data, "extra_info.split")
    assert found == ({"train": [0, 1, 2, 3], "test": [4]}, 1)
    with pytest.raises(DataError, match="row 0 has no 'level'"):
        split_by_column(data, "level")
    assert split_by_last_digit(rows(20)).parts == {
        "warm": [0, 1, 2, 3, 10, 11, 12, 13],
        "train": [4, 5, 6, 7, 8, 14, 15, 16, 17, 18],
        "heldout": [9, 19],
    }


def test_a_report_counts_what_would_trouble_a_run():
    raw = [
        {"prompt": "ab", "target": 1, "data_source": "x"},
        {"prompt": "ab", "target": "1", "data_source": "x"},
        {"prompt": "AB!", "target": 1, "data_source": "y", "note": [1]},
        {"prompt": "abcdef", "data_source": "y"},
        {"prompt": ""},
        {"text": "c"},
    ]
    found = DataReport(RowMaker(), limit=4, count_tokens=lambda row: len(row["prompt"])).read(raw).summary()
    assert (found["rows"], found["unusable"], found["without_answer"], found["over_limit"]) == (6, 2, 1, 1)
    assert found["columns"]["target"] == {"integer": 2, "text": 1}
    assert (found["repeated_questions"], found["repeated_with_another_answer"]) == (2, 1)
    assert found["sources"] == {"x": 2, "y": 2}
    assert found["prompt_tokens"] == {"p0": 2, "p5": 2, "p50": 3, "p95": 6, "p99": 6, "p100": 6}
    assert [error.partition(":")[0] for error in found["errors"]] == ["data, row 4", "data, row 5", "data, row 3"]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ([{"role": "user"}], "messages"),
        ([1, 2], "list of integer"),
        ([1, "a"], "list of several types"),
        ([], "empty list"),
        ({"a": 1}, "object (a)"),
        (True, "true or false"),
        (b"", "bytes"),
        (None, "nothing"),
    ],
)
def test_types_are_told_in_words(value, name):
    assert describe_type(value) == name
