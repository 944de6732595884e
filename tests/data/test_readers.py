import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlcore.data import load_rows, native, read_rows, to_rows
from rlcore.errors import DataError


def test_the_three_formats_give_the_same_rows(tmp_path):
    rows = [{"prompt": "2+2=", "target": "4", "n": 1}, {"prompt": "é", "target": "5", "n": 2}]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert (
        read_rows(tmp_path / "a.json") == read_rows(tmp_path / "a.jsonl") == read_rows(tmp_path / "a.parquet") == rows
    )


def test_lines_of_objects_named_json_are_read_as_lines(tmp_path):
    (tmp_path / "a.json").write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    assert [row["prompt"] for row in read_rows(tmp_path / "a.json")] == ["a", "b"]


def test_a_field_that_only_another_row_has_is_not_there_after_parquet(tmp_path):
    rows = [{"prompt": "a", "extra": {"tools": {"x": {"n": 1}}}}, {"prompt": "b", "extra": {"tools": {"y": {"n": 2}}}}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert read_rows(tmp_path / "a.parquet") == rows


def test_b67_numpy_values_become_native_ones():
    given = {
        "a": np.int64(7),
        "b": np.array([1, 2]),
        "c": np.str_("7"),
        "d": np.bool_(True),
        "e": np.float32(0.5),
        "f": (np.int8(1),),
    }
    assert native(given) == {"a": 7, "b": [1, 2], "c": "7", "d": True, "e": 0.5, "f": [1]}
    assert [type(value) for value in native(given).values()] == [int, list, str, bool, float, list]
    assert json.dumps(native(given)["a"]) == "7"


def test_b67_answers_keep_their_types_and_none_is_named():
    rows = to_rows([{"prompt": "a", "target": value} for value in (np.int64(7), "7", 7.0, ["7", "7.0"])])
    assert [row["target"] for row in rows] == [7, "7", 7.0, ["7", "7.0"]]
    assert type(rows[0]["target"]) is int
    with pytest.raises(DataError, match=r"row 1: no answer.*1 of 2 rows"):
        to_rows([{"prompt": "a", "target": 1}, {"prompt": "b", "target": None}])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b"", "is empty"),
        ("a.json", b"[]", "is empty"),
        ("a.jsonl", b'{"a": 1}\n{"a": \n', "line 2: not JSON"),
        ("a.json", b"[{]", "not JSON"),
        ("a.json", b'{"rows": []}', "expected a list of objects, found dict with keys rows"),
        ("a.jsonl", b"[1]\n", "row 0: expected an object, found list"),
        ("a.jsonl", b"\xff\xfe\x00", "not UTF-8"),
        ("a.parquet", b"no parquet", "not readable as parquet"),
        ("a.json", b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        ("a.jsonl", b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "line 1: .*nested too deeply"),
        ("a.jsonl", b'{"a": 1}\n{"a": ' + b"9" * 5000 + b"}", "line 2: a whole number of more than 4300 digits"),
        ("a.json", b'[{"a": ' + b"9" * 5000 + b"}]", "a whole number of more than 4300 digits"),
        ("a.jsonl", b'{"a": 1}\n{"a": 1, "b": 2, "a": 3}', "line 2: key 'a' stands 2 times in one object"),
        ("a.jsonl", b'{"a": {"b": 2, "b": 3}}', "line 1: key 'b' stands 2 times"),
        ("a.json", b'[{"a": 1, "a": 3}]', "key 'a' stands 2 times"),
        ("a.csv", b"a,b", "unknown ending '.csv'; known: .jsonl"),
        ("a.jsonl", b'{"a": 1}\n{"a": "hal', "line 2: not JSON: Unterminated string.* breaks off at its end"),
        ("a.json", b'[{"a": 1}, {"a":', "not JSON.* breaks off at its end"),
        ("a.jsonl", b"PAR1\x15\x04", "not JSON.*; its first bytes are those of parquet"),
        ("a.jsonl", b"PAR1\x15\xff", "not UTF-8 text.*; its first bytes are those of parquet"),
        ("a.jsonl", b"\x1f\x8b\x08\x00", "its first bytes are those of gzip"),
        ("a.parquet", b'{"a": 1}\n', "not readable as parquet.*; its first bytes are those of JSON text"),
        ("a.jsonl", b'[\n{"a": 1}\n]', "line 1: not JSON.*looks like one JSON list: name it .json"),
        ("a.jsonl", b'[{"a": 1}]', "found list; it looks like one JSON list"),
        ("a.jsonl", b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        ("a.jsonl.gz", b'{"a": 1}', "not readable as gzip"),
        ("a.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 9, mtime=0)[:-9], "not readable as gzip .cut off"),
        ("a.json.gz", gzip.compress(b'[{"a": 1}]', mtime=0)[:-2], "not readable as gzip .cut off"),
        ("a.parquet.gz", b"PAR1", "unknown ending '.gz'"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        read_rows(tmp_path / name)


def test_a_missing_file_names_the_nearest_sibling(tmp_path):
    (tmp_path / "gsm8k_train.jsonl").write_text("{}")
    with pytest.raises(DataError, match=r"does not exist\. Did you mean 'gsm8k_train.jsonl'"):
        read_rows(tmp_path / "gsm8k_trian.jsonl")
    with pytest.raises(DataError, match="nor does its folder"):
        read_rows(tmp_path / "no" / "a.jsonl")
    with pytest.raises(DataError, match=r"is a folder; data files in it: gsm8k_train.jsonl"):
        read_rows(tmp_path)


@pytest.mark.parametrize("prompt", ["a \ud800 b", [{"role": "user", "content": "\ud800"}]])
def test_half_a_surrogate_pair_in_a_prompt_names_its_row(tmp_path, prompt):
    (tmp_path / "a.jsonl").write_text(json.dumps({"prompt": "\U0001f600"}) + "\n" + json.dumps({"prompt": prompt}))
    with pytest.raises(DataError, match=r"row 1: its prompt holds \\ud800, half of a surrogate pair"):
        load_rows(str(tmp_path / "a.jsonl"))


def test_a_value_nested_beyond_pythons_stack_names_its_row():
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(DataError, match="row 0: .*nested too deeply"):
        to_rows([{"prompt": "a", "deep": deep}])


def test_a_parquet_file_that_breaks_off_says_so(tmp_path):
    pq.write_table(pa.table({"prompt": ["a"] * 50}), tmp_path / "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="not readable as parquet"):
        read_rows(tmp_path / "a.parquet")
    pq.write_table(pa.table({"prompt": pa.array([], pa.string())}), tmp_path / "none.parquet")
    with pytest.raises(DataError, match=r"is empty \(0 rows\)"):
        read_rows(tmp_path / "none.parquet")


def test_tables_of_any_making_give_plain_values(tmp_path):
    table = pa.table(
        {
            "prompt": pa.array(["a", "b"]).dictionary_encode(),
            "target": pa.array([7, None], pa.int8()),
            "m": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_rows(tmp_path / "a.parquet") == [
        {"prompt": "a", "target": 7, "m": {"k": 1}},
        {"prompt": "b", "target": None, "m": {}},
    ]
