from collections import Counter

import pytest

from rlcore.config import load
from rlcore.data import LazyRows, describe_counts, write_rows
from rlcore.errors import ConfigError, DataError, UnknownNameError
from rlcore_envs.datasets import mixture


@pytest.fixture
def parts(tmp_path):
    write_rows(
        tmp_path / "a.jsonl", [{"prompt": f"a{i}", "target": str(i), "data_source": "from a"} for i in range(30)]
    )
    write_rows(tmp_path / "b.jsonl", [{"question": f"b{i}", "answer": str(i)} for i in range(20)])
    return {"mine": {"path": str(tmp_path / "a.jsonl"), "weight": 3}, "other": {"path": str(tmp_path / "b.jsonl")}}


def test_rows_come_in_the_shares_of_the_weights_and_none_twice(parts):
    rows = mixture(parts=parts)
    assert Counter(row["mixture"] for row in rows) == {"mine": 30, "other": 10}
    assert len({row["prompt"] for row in rows}) == 40
    assert describe_counts(rows.counts) == "10 of other left over"
    assert Counter(row["data_source"] for row in rows) == {"from a": 30, "other": 10}
    assert [row["mixture"] for row in rows] != sorted(row["mixture"] for row in rows)


def test_equal_seeds_give_equal_rows_in_one_order(parts):
    assert mixture(parts=parts) == mixture(parts=parts)
    assert mixture(parts=parts, seed=1) != mixture(parts=parts)


@pytest.mark.parametrize(("rows", "expected"), [(8, (6, 2)), (7, (5, 2)), (3, (2, 1)), (60, (45, 15))])
def test_a_number_of_rows_is_met_and_repeats_are_warned_of(parts, rows, expected, caplog):
    found = mixture(parts=parts, rows=rows)
    assert len(found) == rows
    count = Counter(row["mixture"] for row in found)
    assert (count["mine"], count["other"]) == expected
    assert ("part mine has 30 rows and gives 45, so that 15 repeat" in caplog.text) == (rows == 60)
    # Every row is given once before any is given twice.
    assert len({row["prompt"] for row in found if row["mixture"] == "mine"}) == min(expected[0], 30)


def test_parts_that_stay_in_their_files_stay_there(parts):
    lazy = mixture(parts={name: {**part, "lazy": True} for name, part in parts.items()})
    assert isinstance(lazy, LazyRows)
    assert list(lazy) == list(mixture(parts=parts))
    assert set(lazy.columns) == {"prompt", "target", "data_source", "question", "answer", "mixture"}


def test_held_out_rows_are_asked_of_every_part_and_never_of_one_that_trains_on_all(parts):
    with pytest.raises(DataError, match=r"data\.parts\.mine: it trains on all its rows, heldout ones among them"):
        mixture(parts=parts, split="heldout")
    own = {name: {**part, "split": "train"} for name, part in parts.items()}
    made = own | {"sums": {"name": "arithmetic", "rows": 8}}
    train, held = ({row["prompt"] for row in mixture(parts=made, split=s)} for s in ("own", "heldout"))
    assert train
    assert held
    assert not train & held


def test_the_number_of_rows_is_one_of_training_and_repeats_no_held_out_row(parts, caplog):
    own = {name: {**part, "split": "train"} for name, part in parts.items()}
    assert len(mixture(parts=own, rows=60)) == 60
    assert "mine has 15 rows and gives 45" in caplog.text
    caplog.clear()
    held = mixture(parts=own, rows=60, split="heldout")
    assert len(held) == len({row["prompt"] for row in held}) == 4
    assert not caplog.text
    mixture(parts=own, rows=60, split="warm")
    assert "mine has 12 warm rows and gives 45" in caplog.text


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"weight": 0}, DataError, r"data\.parts\.mine\.weight=0; expected a number above 0"),
        ({"weight": "3"}, DataError, "weight='3'"),
        ({"name": "fil"}, UnknownNameError, r"data\.parts\.mine: unknown dataset 'fil'\. Did you mean 'file'"),
        ({"pth": "x"}, ConfigError, r"data\.parts\.mine: file has no option 'pth'.*Did you mean 'path'"),
        ({"path": "none.jsonl"}, DataError, r"data\.parts\.mine: data file 'none.jsonl' does not exist"),
        ({"weight": 1e-9}, DataError, "none is of part 'mine'"),
    ],
)
def test_what_is_wrong_with_a_part_names_it(parts, change, error, said):
    with pytest.raises(error, match=said):
        mixture(parts={**parts, "mine": {**parts["mine"], **change}})


def test_a_mixture_without_parts_or_of_fewer_than_no_rows_is_refused(parts):
    with pytest.raises(DataError, match=r"needs data\.parts, such as"):
        mixture()
    with pytest.raises(DataError, match="rows=-1"):
        mixture(parts=parts, rows=-1)


def test_a_command_line_names_parts_and_changes_one(parts):
    words = ["model=none", "reward=exact_answer", "data=mixture", "data.rows=8"]
    written = f"data.parts={{mine: {{path: {parts['mine']['path']}}}, other: {{path: {parts['other']['path']}}}}}"
    rows = load([*words, written, "data.parts.other.weight=3"]).dataset()
    assert Counter(row["mixture"] for row in rows) == {"mine": 2, "other": 6}
