import logging

import pytest

from rlcore.data import describe_counts
from rlcore.errors import DataError
from rlcore_envs.datasets import filter_rows, format_prompts
from rlcore_envs.datasets.file import RowSelection

ROWS = [
    {"prompt": f"question {i % 8}", "target": str(i), "level": i, "extra_info": {"split": "train" if i % 2 else "test"}}
    for i in range(10)
]


def test_every_row_that_is_left_out_is_counted_under_its_reason():
    rows = [*ROWS, {"prompt": "x" * 50, "level": 1, "extra_info": {"split": "train"}}]
    kept = filter_rows(rows, where=("level<9", "extra_info.split=train"), max_characters=40, duplicates="drop")
    assert [row["level"] for row in kept] == [1, 3, 5, 7]
    assert kept.counts == {
        "not extra_info.split=train": 5,
        "not level<9": 1,
        "prompts over 40 characters": 1,
    }
    assert len(kept) + sum(kept.counts.values()) == len(rows)
    assert describe_counts(filter_rows(ROWS, duplicates="drop").counts) == "2 duplicates"


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("level=3", [3]),
        ("level!=3", [0, 1, 2, 4, 5, 6, 7, 8, 9]),
        ("level>=8", [8, 9]),
        ("level > 8", [9]),
        ("level<=1", [0, 1]),
        ("target=3", [3]),
        ("target<3", []),
    ],
)
def test_a_condition_compares_numbers_as_numbers_and_texts_as_texts(condition, kept):
    if not kept:
        with pytest.raises(DataError, match=r"no row is left of 10; left out: 10 not target<3"):
            filter_rows(ROWS, where=(condition,))
    else:
        assert [row["level"] for row in filter_rows(ROWS, where=(condition,))] == kept


def test_a_condition_that_cannot_hold_says_why():
    with pytest.raises(DataError, match=r"asks for 'levl', which no row has; columns: .* Did you mean 'level'"):
        filter_rows(ROWS, where=("levl=3",))
    with pytest.raises(DataError, match="'level' is no comparison; write column=value"):
        filter_rows(ROWS, where=("level",))
    with pytest.raises(DataError, match="max_characters=-1"):
        filter_rows(ROWS, max_characters=-1)


def test_repeated_questions_are_warned_of_and_dropped_on_request_with_a_count(caplog):
    with caplog.at_level(logging.WARNING, logger="rlcore"):
        rows = RowSelection(name="dapo").rows(ROWS)
    assert len(rows) == 10
    assert "dapo: 2 of 10 rows repeat the question of an earlier row" in caplog.text
    caplog.clear()
    rows = RowSelection(name="dapo", duplicates="drop").rows(ROWS)
    assert (len(rows), rows.counts, caplog.text) == (8, {"duplicates": 2}, "")


def test_a_source_that_is_blank_or_no_text_is_none():
    for source in ("", " ", None, float("nan"), 3):
        with pytest.raises(DataError, match="row 1: data_source is .*sources found: a"):
            RowSelection(name="data").rows(
                [{"prompt": "x", "data_source": "a"}, {"prompt": "y", "data_source": source}]
            )


def test_thinking_is_kept_or_stripped_as_the_data_set_is_told():
    def said(*answers):
        turns = [[{"role": "user", "content": "q"}, {"role": "assistant", "content": a}] for a in answers]
        return [message for turn in turns for message in turn]

    row = {
        "prompt": said("<think>a</think> 1")[:2] + said("")[:1],
        "messages": said("<think>a</think> 1", "<think>b</think>\n2"),
    }
    assert format_prompts([row]) == [row]
    [stripped] = format_prompts([row], thinking="strip")
    assert [m["content"] for m in stripped["messages"]] == ["q", "1", "q", "<think>b</think>\n2"]
    assert [m["content"] for m in stripped["prompt"]] == ["q", "1", "q"]
    [bare] = format_prompts([row], thinking="strip_all")
    assert [m["content"] for m in bare["messages"]] == ["q", "1", "q", "2"]
    assert (
        format_prompts([{"prompt": "q", "completion": "<think>\n</think>3"}], thinking="strip_all")[0]["completion"]
        == "3"
    )
    assert (
        format_prompts([{"prompt": "q", "completion": "<think>3"}], thinking="strip_all")[0]["completion"] == "<think>3"
    )
