import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore import Batch
from rlcore.columns import COLUMNS, Column
from rlcore.errors import GraphError, UnknownNameError

lengths = st.lists(st.integers(0, 5), min_size=0, max_size=6)


def numbered(length):
    """Rows with these lengths, every value told apart from every other."""
    total = sum(length)
    return Batch(
        {
            "length": torch.tensor(length, dtype=torch.int64),
            "tokens": torch.arange(total),
            "old_logprob": -torch.arange(total, dtype=torch.float32),
            "sampled": torch.arange(total) % 2 == 0,
            "group": torch.arange(len(length)) // 2,
            "data.prompt": [f"p{i}" for i in range(len(length))],
        }
    )


def equal(one, other):
    assert one.names == other.names and len(one) == len(other)
    for name in one.names:
        a, b = one[name], other[name]
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b, name


def test_rows_are_stored_without_padding_and_padded_when_read():
    batch = Batch({"length": [2, 1, 0, 3], "tokens": [5, 6, 7, 8, 9, 10]})
    assert batch.flat("tokens").tolist() == [5, 6, 7, 8, 9, 10]
    assert batch["tokens"].tolist() == [[5, 6, 0], [7, 0, 0], [0, 0, 0], [8, 9, 10]]
    assert (len(batch), batch.width, batch.tokens_total) == (4, 3, 6)
    assert batch.row_of_token.tolist() == [0, 0, 1, 3, 3, 3]
    assert batch.place_of_token.tolist() == [0, 1, 0, 0, 1, 2]


def test_padding_that_was_given_is_thrown_away_whatever_it_holds():
    padded = torch.tensor([[1.0, torch.nan, torch.inf], [2.0, 3.0, 1e30]])
    batch = Batch({"length": [1, 2], "advantage": padded})
    assert batch.flat("advantage").tolist() == [1.0, 2.0, 3.0]
    assert batch["advantage"].tolist() == [[1.0, 0.0], [2.0, 3.0]]


@given(lengths, st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_flat_and_padded_columns_turn_into_each_other(length, extra):
    batch = numbered(length)
    for name in ("tokens", "old_logprob", "sampled"):
        wide = torch.cat([batch[name], torch.ones((len(length), extra), dtype=batch[name].dtype)], dim=1)
        again = Batch({"length": batch.length, name: wide})
        assert torch.equal(again.flat(name), batch.flat(name))
        assert torch.equal(again[name], batch[name])


@given(lengths, st.data())
@settings(deadline=None, max_examples=60)
def test_take_gives_the_rows_in_order_repeats_included(length, data):
    batch = numbered(length)
    rows = data.draw(st.lists(st.integers(0, len(length) - 1), max_size=8)) if length else []
    taken = batch.take(rows)
    pieces = batch.flat("tokens").split(length)
    assert taken.length.tolist() == [length[r] for r in rows]
    assert [p.tolist() for p in taken.flat("tokens").split([length[r] for r in rows])] == [
        pieces[r].tolist() for r in rows
    ]
    assert taken["data.prompt"] == [f"p{r}" for r in rows]
    again = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=5)) if rows else []
    equal(taken.take(again), batch.take([rows[i] for i in again]))


@given(lengths, st.data())
@settings(deadline=None, max_examples=60)
def test_concat_undoes_a_split_anywhere(length, data):
    batch = numbered(length)
    cut = data.draw(st.integers(0, len(length)))
    equal(Batch.concat([batch.take(range(cut)), batch.take(range(cut, len(length)))]), batch)


def test_take_accepts_tensors_lists_and_ranges_and_refuses_rows_that_are_not_there():
    batch = numbered([1, 2, 3])
    for rows in (torch.tensor([2, 0]), [2, 0], range(2, -1, -2)):
        equal(batch.take(rows), batch.take([2, 0]))
    with pytest.raises(GraphError, match=r"rows \[3\] are not all within 0..2"):
        batch.take([3])
    with pytest.raises(GraphError, match="not all within"):
        batch.take([-1])


def test_a_boolean_mask_is_no_list_of_rows():
    # [True, False, True] would else be read as the rows 1, 0, 1.
    with pytest.raises(GraphError, match="nonzero"):
        numbered([1, 1, 1]).take(torch.tensor([True, False, True]))


def test_an_empty_batch_has_no_rows_and_can_still_be_read():
    empty = numbered([1, 2]).take([])
    assert len(empty) == 0 and empty.width == 0 and empty["tokens"].shape == (0, 0) and empty["data.prompt"] == []
    assert len(Batch({})) == 0


def test_concat_keeps_the_newest_value_of_a_column_without_dimensions():
    one = Batch({"reward": [1.0], "kl_coefficient": 0.1})
    two = Batch({"reward": [2.0], "kl_coefficient": 0.2})
    joined = Batch.concat([one, two])
    assert joined["kl_coefficient"] == 0.2 and joined["reward"].tolist() == [1.0, 2.0]


def test_batches_with_different_columns_are_not_joined():
    with pytest.raises(GraphError, match="they differ in group"):
        Batch.concat([Batch({"reward": [1.0], "group": [0]}), Batch({"reward": [1.0]})])
    with pytest.raises(GraphError, match="no batch was given"):
        Batch.concat([])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"length": [2, 1], "tokens": [1, 2]},
            r"'tokens' has shape \(2,\); expected \[3\] tokens without padding, or \[2, 2 or more\] padded",
        ),
        ({"length": [2, 1], "tokens": [[1], [2]]}, "expected"),
        ({"reward": [1.0, 2.0], "group": [1]}, "'group' has 1 rows; the batch has 2"),
        ({"tokens": [1, 2]}, "has no `length`"),
        ({"length": [1.5]}, "'length' is declared as int; got torch.float32"),
        ({"reward": [1.0], "group": [0.5]}, "'group' is declared as int"),
        ({"length": [1], "sampled": [2]}, "'sampled' is declared as bool"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_was_expected(columns, message):
    with pytest.raises(GraphError, match=message):
        Batch(columns)


def test_an_undeclared_column_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="Did you mean 'reward'"):
        Batch({"rewards": [1.0]})
    batch = Batch({"reward": [1.0], "group": [0]})
    with pytest.raises(UnknownNameError, match="Did you mean 'reward'"):
        batch["rewrd"]
    with pytest.raises(GraphError, match="no token dimension"):
        batch.flat("reward")


def test_numbers_become_the_declared_type_and_wide_floats_stay():
    batch = Batch({"reward": [1, 0], "group": torch.tensor([1, 2], dtype=torch.int32), "chosen": [1, 0]})
    assert batch["reward"].dtype == torch.float32 and batch["group"].dtype == torch.int64
    assert batch["chosen"].dtype == torch.bool
    assert Batch({"reward": torch.ones(2, dtype=torch.float64)})["reward"].dtype == torch.float64


def test_assign_select_and_drop_give_new_batches_and_leave_the_old_one():
    batch = numbered([1, 2])
    more = batch.assign({"reward": [1.0, 2.0], "group": [7, 8]})
    assert more["group"].tolist() == [7, 8] and batch["group"].tolist() == [0, 0] and "reward" not in batch
    assert "tokens" not in batch.drop(["tokens"]) and "tokens" in batch


def test_a_plugin_may_bring_a_column():
    table = COLUMNS.declare(
        Column(name="surprise", dims=("B", "T"), dtype="float", meaning="minus the log-probability", writer="acme")
    )
    batch = Batch({"length": [1], "surprise": [0.5]}, table=table)
    assert batch.take([0, 0])["surprise"].tolist() == [[0.5], [0.5]]
    assert Batch.concat([batch, batch]).flat("surprise").tolist() == [0.5, 0.5]
