from itertools import chain

import pytest

from rlcore.data import DataOrder
from rlcore.errors import DataError


def test_each_epoch_is_a_permutation_of_its_own():
    order = DataOrder(10, seed=3)
    first, second = (order.next(10) for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert DataOrder(10, seed=4).next(10) != first


def test_b83_fewer_rows_than_a_step_draws_is_an_error_with_both_sizes():
    with pytest.raises(DataError, match="draw of 4 rows from a data set of 3: 0 whole batches"):
        DataOrder(3, seed=0).next(4)
    with pytest.raises(DataError, match=r"1.0 epochs of 3 rows hold 0 draws of 4"):
        DataOrder(3, seed=0).steps(1.0, 4)
    with pytest.raises(DataError, match="at least one row"):
        DataOrder(0, seed=0)


def test_b83_data_that_runs_out_is_drawn_again_to_the_last_step():
    order = DataOrder(25, seed=0)
    state = {}
    for step in range(100):
        if step == 20:
            state = order.state_dict()
        order.next(1)
    assert order.drawn == 100
    resumed = DataOrder(25, seed=0)
    resumed.load_state_dict(state)
    assert sum(len(resumed.next(1)) for _ in range(80)) == 80


def test_b85_after_a_checkpoint_at_the_end_of_an_epoch_come_all_items_of_the_next():
    order = DataOrder(8, seed=1)
    first = [order.next(2) for _ in range(4)]
    resumed = DataOrder(8, seed=1)
    resumed.load_state_dict(order.state_dict())
    second = [resumed.next(2) for _ in range(4)]
    assert sorted(chain(*second)) == sorted(chain(*first)) == list(range(8))
    assert order.steps(2, 2) == 8


@pytest.mark.parametrize("stop", range(8))
def test_b86_a_resumed_order_equals_the_uninterrupted_one(stop):
    whole, broken = DataOrder(10, seed=7), DataOrder(10, seed=7)
    expected = [whole.next(3) for _ in range(8)]
    before = [broken.next(3) for _ in range(stop)]
    resumed = DataOrder(10, seed=7)
    resumed.load_state_dict(broken.state_dict())
    assert before + [resumed.next(3) for _ in range(8 - stop)] == expected


def test_a_draw_runs_over_into_the_next_epoch_without_leaving_rows_out():
    order = DataOrder(10, seed=0)
    drawn = list(chain(*(order.next(4) for _ in range(5))))
    assert sorted(drawn) == sorted(list(range(10)) * 2)


def test_a_state_of_other_data_is_refused():
    with pytest.raises(DataError, match="saved data order has size 10, this one 11"):
        DataOrder(11, seed=0).load_state_dict(DataOrder(10, seed=0).state_dict())
    with pytest.raises(DataError, match="has seed 1, this one 0"):
        DataOrder(10, seed=0).load_state_dict(DataOrder(10, seed=1).state_dict())
