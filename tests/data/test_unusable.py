"""Files and rows that cannot be used: each is named, and nothing is changed to make it fit."""

import datetime
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlcore.data import load_rows, read_rows, to_rows, write_rows
from rlcore.errors import DataError
from rlcore_envs.datasets import file


def not_utf8():
    ends = pa.py_buffer((0).to_bytes(4, "little") + (1).to_bytes(4, "little") + (2).to_bytes(4, "little"))
    return pa.StringArray.from_buffers(2, ends, pa.py_buffer(b"a\xff"))


BAD_TABLES = {
    "row 1, column 'm'.*duplicate": pa.table(
        {"prompt": ["a", "b"], "m": pa.array([[("k", 1)], [("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))}
    ),
    "row 1, column 'prompt'.*utf-8": pa.table({"prompt": not_utf8()}),
    "column 'prompt' stands 2 times": pa.table([pa.array(["a"]), pa.array(["b"])], names=["prompt", "prompt"]),
    "its notes of rlcore.*damaged": pa.table({"prompt": ["a"]}).replace_schema_metadata({"rlcore": "no"}),
    "row 0, column 'x': rlcore wrote it as JSON": pa.table({"prompt": ["a"], "x": ["{"]}).replace_schema_metadata(
        {"rlcore": '{"json": ["x"]}'}
    ),
}


@pytest.mark.parametrize(
    "read", [load_rows, lambda path: list(file(path=str(path), lazy=True))], ids=["at once", "lazily"]
)
@pytest.mark.parametrize("said", BAD_TABLES)
def test_what_of_a_table_no_row_can_have_is_named(tmp_path, said, read):
    file = str(tmp_path / "a.parquet")
    pq.write_table(BAD_TABLES[said], file)
    with pytest.raises(DataError, match=f"a.parquet'.*{said}"):
        read(file)


def test_a_pipe_is_no_file_to_be_read_twice(tmp_path):
    os.mkfifo(tmp_path / "a.jsonl")
    with pytest.raises(DataError, match="a pipe or a device"):
        read_rows(tmp_path / "a.jsonl")


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.jsonl").write_text('{"prompt": "a"}\n')
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # whoever runs this may be allowed everything
    with pytest.raises(DataError, match=r"a\.jsonl' may not be read"):
        read_rows(tmp_path / "a.jsonl")


def test_a_name_that_no_file_can_have_is_an_error_in_words(tmp_path):
    with pytest.raises(DataError, match="cannot be reached"):
        read_rows(tmp_path / ("a" * 300 + ".jsonl"))
    with pytest.raises(DataError, match="cannot be written"):
        write_rows(tmp_path / ("a" * 300 + ".jsonl"), [{"prompt": "a"}])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"prompt": " \n"}, "a prompt is a non-empty text"),
        ({"Body": None, "Question": None, "Answer": 3.0}, "Body must be text; found None"),
        ({"Body": "A pen.", "Question": None, "Answer": 3.0}, "Question must be text; found None"),
        ({"prompt": "a", "info": '{"a": 1, "a": 2}'}, "column info: key 'a' stands 2 times"),
        ({"prompt": '[{"role": "user", "role": "user", "content": "a"}]'}, "key 'role' stands 2 times"),
        ({"prompt": "a", "info": '{"a": ' + "9" * 5000 + "}"}, "column info: a whole number of more than"),
        ({"prompt": [{"role": "user", "content": [1]}]}, "message 0 .*a part of a content.*found 1"),
        ({"prompt": [{"role": "user", "content": "a"}], "tools": "calc"}, "tools must be a list of objects"),
        ({"prompt": [{"role": "user", "content": "a"}], "tools": ["calc"]}, "tools must be a list of objects"),
        ({"prompt": [{"role": "user", "content": "a"}], "chat_template_kwargs": "x"}, "chat_template_kwargs must be"),
    ],
)
def test_a_row_that_would_be_read_as_something_else_is_named(row, said):
    good = {"prompt": "a", "answer": 1}
    with pytest.raises(DataError, match=f"^data, row 1: .*{said}"):
        to_rows([good, {**row, "answer": 2}])


def test_tools_of_a_text_prompt_are_a_column_like_any_other():
    assert to_rows([{"prompt": "a", "tools": ["calc"]}])[0]["tools"] == ["calc"]


def test_times_of_a_table_are_pythons_own_and_can_be_written_again(tmp_path):
    when = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "prompt": ["a", "b"],
            "when": pa.array([when, None], pa.timestamp("ns", "UTC")),
            "took": pa.array([datetime.timedelta(seconds=3), None], pa.duration("ns")),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    rows = read_rows(tmp_path / "a.parquet")
    assert [type(rows[0][name]) for name in ("when", "took")] == [datetime.datetime, datetime.timedelta]
    assert write_rows(tmp_path / "b.parquet", rows) == 2
    assert read_rows(tmp_path / "b.parquet") == rows


def test_columns_deeper_than_a_schema_may_be_survive_parquet(tmp_path):
    deep = 1
    for _ in range(60):
        deep = {"a": [deep]}
    write_rows(tmp_path / "a.parquet", [{"prompt": "a", "deep": deep}])
    assert read_rows(tmp_path / "a.parquet") == [{"prompt": "a", "deep": deep}]


def test_a_value_that_json_text_would_change_is_not_written(tmp_path):
    with pytest.raises(DataError, match=r"row 0, column 'x'.*\{1: 2\} is \{\"1\": 2\} there"):
        write_rows(tmp_path / "a.parquet", [{"x": {1: 2}}])
    assert list(tmp_path.iterdir()) == []
