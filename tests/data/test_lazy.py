"""Rows that stay in their file are those that would have been in memory."""

import json
import subprocess
import sys
import tracemalloc

import pandas as pd
import pytest

from rlcore.data import write_rows
from rlcore.errors import DataError
from rlcore_envs.datasets import file

ROWS = [
    {"prompt": f"question {i % 30}", "target": str(i), "level": i % 7, "extra": {"n": i}, "data_source": "made"}
    for i in range(40)
]
SHAPES = [
    {},
    {"duplicates": "drop"},
    {"split": "train"},
    {"split": "heldout", "where": ("level<6",)},
    {"where": ("extra.n>=5",), "max_characters": 10, "data_source": "mine", "system_prompt": "Be brief."},
]


@pytest.fixture(params=["a.jsonl", "a.parquet", "pandas.parquet"])
def path(request, tmp_path):
    path = tmp_path / request.param
    if request.param == "pandas.parquet":
        pd.DataFrame(ROWS).to_parquet(path, row_group_size=7)
    else:
        write_rows(path, ROWS)
    return str(path)


@pytest.mark.parametrize("options", SHAPES)
def test_lazy_rows_equal_those_in_memory(path, options):
    whole = file(path=path, **options)
    lazy = file(path=path, lazy=True, **options)
    assert list(lazy) == list(whole)
    assert [lazy[i] for i in reversed(range(len(lazy)))] == list(reversed(whole))
    assert (lazy[:3], lazy[-1], len(lazy)) == (whole[:3], whole[-1], len(whole))
    assert {k: v for k, v in lazy.counts.items() if v} == {k: v for k, v in whole.counts.items() if v}
    assert set(lazy.columns) == set().union(*whole)


def test_what_is_wrong_with_a_row_is_said_before_any_is_drawn(tmp_path):
    path = tmp_path / "a.jsonl"
    for lines, said in (
        (['{"prompt": "a"}', '{"prompt": ""}'], "row 1: a prompt is a non-empty text"),
        (['{"prompt": "a", "answer": "1"}', "", '{"prompt": "b"}'], "row 1: no answer"),
        (['{"prompt": "a"}', '{"prompt": "b'], "line 2: not JSON"),
        (["[1]"], "row 0: expected an object, found list"),
        (['{"prompt": "a", "data_source": "s"}', '{"prompt": "b"}'], "row 1: data_source is None"),
        ([""], r"is empty \(0 rows\)"),
    ):
        path.write_text("\n".join(lines))
        with pytest.raises(DataError, match=said):
            file(path=str(path), lazy=True)
    with pytest.raises(DataError, match="asks for 'levl'"):
        path.write_text('{"prompt": "a"}')
        file(path=str(path), lazy=True, where=("levl=1",))
    with pytest.raises(DataError, match=r"'.json' cannot be read row by row"):
        (tmp_path / "a.json").write_text("[]")
        file(path=str(tmp_path / "a.json"), lazy=True)


def test_a_row_group_too_large_to_decode_for_each_row_is_refused(tmp_path, monkeypatch):
    write_rows(tmp_path / "a.parquet", ROWS)
    monkeypatch.setattr("rlcore.data.lazy.LARGEST_GROUP", 100)
    with pytest.raises(DataError, match=r"row group 0 has 40 rows and 0 MiB.*rlcore data convert"):
        file(path=str(tmp_path / "a.parquet"), lazy=True)


MEASURE = """
import random, sys
from rlcore.data import DataOrder
from rlcore_envs.datasets import file
import pyarrow.parquet

def peak():  # in KiB; ru_maxrss would begin with the parent's
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

before = peak()
rows = file(path=sys.argv[1], lazy=True)
order = DataOrder(len(rows), 0)
seen = sum(len(rows[i]["text"]) for _ in range(50) for i in order.next(4))
print(len(rows), seen, (peak() - before) // 1024)
"""


def test_a_lazy_row_leaves_memory_when_the_next_is_read(tmp_path):
    path = tmp_path / "a.jsonl"
    write_rows(path, ({"prompt": f"q{i}", "target": "1", "text": str(i % 10) * 10_000} for i in range(1000)))
    tracemalloc.start()
    try:
        rows = file(path=str(path), duplicates="drop", lazy=True)
        assert sum(len(row["text"]) for row in rows) == 10_000_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_a_large_file_is_never_in_memory_whole(tmp_path, name):
    count, size = 3000, 50_000  # 150 MB of text that does not compress into little
    path = tmp_path / name
    text = [json.dumps(list(range(i, i + size // 7)))[:size] for i in range(10)]
    rows = ({"prompt": f"q{i}", "target": "1", "text": text[i % 10]} for i in range(count))
    if name.endswith(".parquet"):
        pd.DataFrame(rows).to_parquet(path, row_group_size=100, compression="none", use_dictionary=False)
    else:
        write_rows(path, rows)
    done = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
    rows, seen, mib = map(int, done.stdout.split())
    assert (rows, seen > 0) == (count, True)
    assert path.stat().st_size > 100 * 2**20
    assert mib < 60 + 10 * name.endswith(".parquet")
