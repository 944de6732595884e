import pytest

from rlcore.data import normal_text, split_rows
from rlcore.errors import DataError


def rows(*questions):
    return [{"prompt": question} for question in questions]


def test_the_parts_are_disjoint_and_cover_the_file():
    data = rows(*(f"question {i}" for i in range(40)))
    parts = {name: split_rows(data, name) for name in ("warm", "train", "heldout")}
    assert [len(part) for part in parts.values()] == [16, 20, 4]
    assert [row["prompt"] for row in parts["heldout"]] == [f"question {i}" for i in (9, 19, 29, 39)]
    assert sorted(row["prompt"] for part in parts.values() for row in part) == sorted(row["prompt"] for row in data)


def test_the_later_of_two_equal_questions_is_dropped_and_counted_so_none_straddles():
    data = rows(*(f"question {i}" for i in range(10)))
    data[9] = {"prompt": "  Question 0?! "}  # held out by its place, and the same as the first warm one
    data[8] = {"prompt": "question 80"}
    assert split_rows(data, "warm")[0]["prompt"] == "question 0"
    assert split_rows(data, "warm").counts == {"duplicates": 1}
    with pytest.raises(DataError, match="split 'heldout' of 10 rows is empty"):
        split_rows(data, "heldout")
    assert len(split_rows(data, "all")) == 10


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("How many  PENS?", "how many pens", True),
        ("3.5 pens.", "35 pens", False),
        ("3.5 pens.", "3.5 pens", True),
        ("5 - 3", "5 + 3", False),
        ("Cost: $5", "cost 5", True),
    ],
)
def test_questions_compare_by_their_words_and_numbers(one, other, same):
    assert (normal_text(one) == normal_text(other)) is same


def test_conversations_compare_by_their_contents():
    data = [{"prompt": [{"role": "user", "content": f"q{i % 5}"}]} for i in range(10)]
    assert split_rows(data, "warm").counts == {"duplicates": 5}


def test_one_question_about_two_pictures_is_two_questions():
    data = [{"prompt": "What is it?", "images": [f"{i}.png"]} for i in range(10)]
    assert split_rows(data, "train").counts == {"duplicates": 0}
    parts = [{"type": "image", "image": "1.png"}, {"type": "text", "text": "What?"}]
    spoken = [{"prompt": [{"role": "user", "content": [{**parts[0], "image": f"{i}.png"}, parts[1]]}]} for i in (1, 2)]
    assert split_rows(spoken, "warm").counts == {"duplicates": 0}
    assert split_rows([spoken[0]] * 2, "warm").counts == {"duplicates": 1}
