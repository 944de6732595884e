import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.batch import Batch
from rlcore.columns import COLUMNS, Column
from rlcore.train import split
from rlcore.train.split import fill_microbatches, is_index_column, minibatches
from rlcore.train.update import microbatches as microbatches_of


def rows(length, **columns):
    return Batch({"length": torch.tensor(length), **{name: torch.tensor(v) for name, v in columns.items()}})


def units(batch, columns):
    return split.units({name: batch[name] for name in columns}, len(batch))


def microbatches(batch, columns, **options):
    """The microbatches of rows that all have something to train on."""
    return microbatches_of(batch, torch.ones(batch.tokens_total, dtype=torch.bool), columns, **options)


def test_index_columns_are_integers_that_say_what_belongs_together():
    table = COLUMNS.declare(Column(name="duel", dims=("B",), dtype="int", meaning="which duel", writer="test"))
    found = [name for name in table if is_index_column(name, table)]
    assert found == ["group", "session", "pair", "duel"]


def test_a_unit_holds_rows_that_are_linked_by_way_of_others():
    batch = rows([1] * 6, group=[5, 5, 3, 3, 9, 9], pair=[1, 2, 2, 4, 6, 6])
    assert units(batch, ("group", "pair")).tolist() == [3, 3, 3, 3, 9, 9]
    assert units(batch, ("group",)).tolist() == [5, 5, 3, 3, 9, 9]
    assert units(batch, ("pair",)).tolist() == [0, 1, 1, 3, 4, 4]
    assert units(batch, ()).tolist() == [0, 1, 2, 3, 4, 5]


def test_minibatches_are_near_equal_shares_of_whole_groups():
    unit = torch.arange(7).repeat_interleave(3)
    shares = minibatches(unit, 3, seed=0)
    assert sorted(len(share) for share in shares) == [6, 6, 9]
    assert sorted(torch.cat(shares).tolist()) == list(range(21))
    for share in shares:
        assert all((unit[share] == g).sum() == 3 for g in unit[share].unique())


def test_the_order_of_minibatches_hangs_on_seed_and_group_ids_alone():
    unit = torch.tensor([4, 4, 8, 8, 15, 16, 23, 42])
    order = torch.randperm(8, generator=torch.Generator().manual_seed(1))
    plain = [set(unit[share].tolist()) for share in minibatches(unit, 3, seed=5)]
    shuffled = [set(unit[order][share].tolist()) for share in minibatches(unit[order], 3, seed=5)]
    assert plain == shuffled
    seeds = {str([unit[share].tolist() for share in minibatches(unit, 3, seed=seed)]) for seed in range(6)}
    assert len(seeds) > 1


def test_fewer_groups_than_minibatches_leave_none_empty():
    assert [len(share) for share in minibatches(torch.tensor([1, 1, 2, 2]), 4, seed=0)] == [2, 2]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4)), min_size=1, max_size=20),
    st.integers(1, 30),
    st.booleans(),
)
def test_every_row_is_in_one_microbatch_within_the_budget(drawn, budget, share_prompts):
    length, group = (list(column) for column in zip(*drawn, strict=True))
    parts = microbatches(rows(length, group=group), (), token_budget=budget, share_prompts=share_prompts)
    assert sorted(row for part in parts for row in part.tolist()) == list(range(len(length)))
    assert all(len(part) == 1 or sum(length[row] for row in part.tolist()) <= budget for part in parts)


def test_rows_of_one_group_share_a_microbatch_as_far_as_the_budget_goes():
    length, group = [9, 3, 9, 3, 9, 3, 9, 3], [1, 1, 2, 2, 3, 3, 4, 4]
    parts = microbatches(rows(length, group=group), (), token_budget=12, share_prompts=True)
    assert [part.tolist() for part in parts] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    alone = microbatches(rows(length, group=group), (), token_budget=12, share_prompts=False)
    assert [part.tolist() for part in alone] == [[0], [2], [4], [6, 1], [3, 5, 7]]


@pytest.mark.parametrize("share_prompts", [False, True])
def test_rows_of_one_pair_stay_together_whatever_the_budget(share_prompts):
    batch = rows([5, 5, 5, 5], group=[1, 1, 1, 1], pair=[1, 2, 1, 2])
    parts = microbatches(batch, ("pair",), token_budget=6, share_prompts=share_prompts)
    assert sorted(sorted(part.tolist()) for part in parts) == [[0, 2], [1, 3]]


def test_microbatches_hold_every_row_once_within_the_budget():
    draw = random.Random(0)
    for _ in range(50):
        lengths = [draw.randint(1, 60) for _ in range(draw.randint(0, 30))]
        together = [draw.randint(0, 9) for _ in lengths] if draw.random() < 0.5 else list(range(len(lengths)))
        batches = fill_microbatches(lengths, together, token_budget=100)
        assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
        for batch in batches:
            assert sum(lengths[r] for r in batch) <= 100 or len({together[r] for r in batch}) == 1
        homes = {(together[r], i) for i, batch in enumerate(batches) for r in batch}
        assert len(homes) == len(set(together))


def test_microbatches_put_rows_of_like_length_together_longest_first():
    alone = range(4)
    assert fill_microbatches([2, 9, 3, 9], alone, token_budget=18) == [[1, 3], [2, 0]]
    assert fill_microbatches([50, 1, 1], alone[:3], token_budget=10) == [[0], [1, 2]]
    assert fill_microbatches([4, 4, 1, 4], [0, 1, 1, 0], token_budget=8) == [[0, 3], [1, 2]]
    assert fill_microbatches([4, 4, 4], alone[:3], token_budget=0) == [[0], [1], [2]]
