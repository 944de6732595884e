"""`rlcore data`: what it prints, what it writes, and what it refuses."""

import json

import pytest

from rlcore.data import load_rows, read_rows, write_rows
from rlcore.data.writers import equal_exactly

ROWS = [{"question": f"What is {i}+1?", "answer": f"It is.\n#### {i + 1}", "level": i % 3} for i in range(20)]


@pytest.fixture
def file(tmp_path):
    write_rows(tmp_path / "a.jsonl", ROWS)
    return tmp_path / "a.jsonl"


def test_inspect_tells_layout_columns_lengths_and_rows(rlcore, file):
    status, said, _ = rlcore("data", "inspect", file, "--limit", "12", "--rows", "1")
    assert status == 0
    for line in (
        "layout: GSM8K (20)",
        "  level: integer",
        "without an answer: 0",
        "repeating an earlier question: 0, with another answer: 0",
        "over 12 characters: 10",
        "  answer: It is.\\n#### 1",
    ):
        assert line in said
    assert "row 1" not in said


def test_inspect_counts_tokens_of_a_model(rlcore, file, model):
    status, said, _ = rlcore("data", "inspect", file, "--tokenizer", model, "--limit", "13", "--json")
    found = json.loads(said)
    assert (status, found["prompt_tokens"]["p100"], found["prompt_characters"]["p100"]) == (0, 14, 13)
    assert (found["over_limit"], len(found["first"])) == (10, 3)


def test_inspect_reads_a_named_data_set_with_options(rlcore):
    status, said, _ = rlcore("data", "inspect", "countdown", "rows=7", "count=4", "--json")
    found = json.loads(said)
    assert (status, found["rows"], found["sources"]) == (0, 7, {"countdown": 7})
    assert len(found["first"][0]["numbers"]) == 4
    status, _, said = rlcore("data", "inspect", "countdwn")
    assert (status, "Did you mean 'countdown'" in said) == (1, True)
    assert rlcore("data", "inspect", "countdown", "rowz=7")[0] == 1


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_nothing_in_a_file_steers_the_terminal(rlcore, tmp_path, more):
    hostile = "\x1b[2J\x1b]0;title\x07 \u202eturned \x9b31m \r over"
    write_rows(tmp_path / "a.jsonl", [{"prompt": hostile, hostile: hostile, "data_source": hostile, "target": "1"}])
    status, said, _ = rlcore("data", "inspect", tmp_path / "a.jsonl", *more)
    assert status == 0
    assert all(c.isprintable() or c == "\n" for c in said)
    assert "turned" in said


def test_inspect_goes_on_past_rows_that_cannot_be_used(rlcore, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"prompt": "a"}\n{"prompt": ""}\n{"prompt": "b"}\n{"prompt": "c')
    status, said, _ = rlcore("data", "inspect", tmp_path / "a.jsonl")
    assert status == 0
    assert "rows that cannot be used: 2" in said
    assert "row 1: a prompt is a non-empty text" in said
    assert "breaks off at its end" in said


@pytest.mark.parametrize("name", ["b.parquet", "b.jsonl", "b.jsonl.gz"])
def test_convert_writes_our_rows_and_never_over_a_file(rlcore, file, tmp_path, name):
    status, said, _ = rlcore("data", "convert", file, tmp_path / name)
    assert (status, said) == (0, f"20 rows written to {tmp_path / name}, and read back equal\n")
    made = load_rows(str(tmp_path / name))
    assert equal_exactly(made, load_rows(str(file)))
    assert (made[3]["target"], made[3]["level"]) == ("4", 0)
    status, _, said = rlcore("data", "convert", file, tmp_path / name)
    assert (status, "is there already" in said) == (1, True)


def test_convert_refuses_what_would_read_back_as_something_else(rlcore, tmp_path):
    row = {"prompt": "a", "reward_model": {"ground_truth": "1"}, "extra_info": {"gold": "2"}}
    write_rows(tmp_path / "a.jsonl", [row])
    words = ("data", "convert", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--prompt-key", "prompt")
    status, _, said = rlcore(*words, "--answer-key", "extra_info.gold")
    assert (status, "row 0 would not read back as it is" in said, "--drop COLUMN" in said) == (1, True, True)
    assert not (tmp_path / "b.jsonl").exists()
    assert rlcore(*words, "--answer-key", "extra_info.gold", "--drop", "reward_model")[0] == 0
    assert load_rows(str(tmp_path / "b.jsonl"))[0]["target"] == "2"


def test_split_writes_parts_once(rlcore, file, tmp_path):
    words = ("data", "split", file, tmp_path / "parts", "train=0.8", "heldout=0.2", "--seed", "3")
    status, said, _ = rlcore(*words)
    assert (status, said.splitlines()[0]) == (0, f"train: 16 rows in {tmp_path / 'parts' / 'train.jsonl'}")
    parts = [read_rows(tmp_path / "parts" / f"{name}.jsonl") for name in ("train", "heldout")]
    assert sorted(row["question"] for part in parts for row in part) == sorted(row["question"] for row in ROWS)
    assert all(row in ROWS for part in parts for row in part)
    status, _, said = rlcore(*words)
    assert (status, "is there already; nothing was written" in said) == (1, True)


def test_split_by_a_column_and_by_digit(rlcore, file, tmp_path):
    assert rlcore("data", "split", file, tmp_path / "by", "--by", "level")[0] == 0
    assert {path.name for path in (tmp_path / "by").iterdir()} == {"0.jsonl", "1.jsonl", "2.jsonl"}
    assert rlcore("data", "split", file, tmp_path / "digit", "--by-digit")[0] == 0
    assert len(read_rows(tmp_path / "digit" / "train.jsonl")) == 10


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "in one way"),
        (("train=0.9", "--by", "level"), "in one way"),
        (("train=x",), "'train=x': expected a number"),
        (("../train=0.5",), "cannot be the name of a file"),
        (("train=0.999", "heldout=0.001"), "part 'heldout' of 20 rows would be empty"),
    ],
)
def test_a_split_that_cannot_be_made_writes_nothing(rlcore, file, tmp_path, words, said):
    status, _, error = rlcore("data", "split", file, tmp_path / "parts", *words)
    assert status == 1
    assert said in error
    assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize("content", [None, "", "\n \n", "no JSON"])
def test_inspect_of_a_file_without_a_row_fails(rlcore, tmp_path, content):
    if content is not None:
        (tmp_path / "a.jsonl").write_text(content)
    status, said, why = rlcore("data", "inspect", tmp_path / "a.jsonl", "--json")
    assert (status, said) == (1, "")
    assert "a.jsonl" in why


def test_inspect_names_a_row_without_a_source_where_others_have_one(rlcore, tmp_path):
    write_rows(tmp_path / "a.jsonl", [{"prompt": "a", "data_source": "x"}, {"prompt": "b"}])
    assert "row 1: data_source is None; sources found: x" in rlcore("data", "inspect", tmp_path / "a.jsonl")[1]


def test_convert_that_fails_leaves_nothing_behind(rlcore, file, tmp_path):
    for wrong, said in (("levle", "Did you mean 'level'"), ("prompt", "read back")):
        more = ("--drop", "question", "--drop", "answer") if wrong == "prompt" else ()
        status, _, why = rlcore("data", "convert", file, tmp_path / "b.jsonl", "--drop", wrong, *more)
        assert (status, said in why or "unknown layout" in why) == (1, True)
        assert not (tmp_path / "b.jsonl").exists()


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        (["a=nan", "b=0.2"], "shares must be above 0"),
        (["a=inf"], "shares must be above 0"),
        (["a=0.2", "a=0.3"], "part 'a' is named twice"),
    ],
)
def test_split_refuses_shares_that_are_none(rlcore, file, tmp_path, shares, said):
    status, _, why = rlcore("data", "split", file, tmp_path / "parts", *shares)
    assert (status, said in why, (tmp_path / "parts").exists()) == (1, True, False)


def test_split_says_that_a_folder_cannot_be_made(rlcore, file):
    status, _, why = rlcore("data", "split", file, file, "a=1.0")
    assert (status, "cannot be made" in why) == (1, True)
