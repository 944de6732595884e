"""Orders that go by difficulty: what is drawn when, and the same after a resume."""

import json
from collections import Counter

import pytest

from rlcore.data import DataOrder, Order
from rlcore.errors import DataError
from rlcore_envs.orders import BySuccess, Sequential, Staged

ROWS = [{"prompt": f"q{i}", "difficulty": (i * 7) % 20, "extra_info": {"level": -i}, "rate": i / 19} for i in range(20)]
MADE = {
    "shuffled": lambda seed=0: DataOrder(20, seed),
    "sequential": lambda seed=0: Sequential(20, seed),
    "staged": lambda seed=0: Staged(20, seed, ROWS, stages=4, success=0.5, window=6),
    "by_success": lambda seed=0: BySuccess(20, seed, ROWS),
}


def score_of(index, step):
    return float((index * 5 + step) % 3 > 0)


def drawn(order, steps, *, first=0):
    found = []
    for step in range(first, first + steps):
        indices = order.next(3)
        found.append(indices)
        for index in indices:
            if hasattr(order, "observe"):
                order.observe(index, [score_of(index, step), score_of(index, step + 1)])
    return found


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("stop", [0, 1, 5, 11])
def test_a_resumed_order_equals_the_uninterrupted_one(name, stop):
    assert isinstance(MADE[name](), Order)
    expected = drawn(MADE[name](), 16)
    before = MADE[name]()
    assert drawn(before, stop) == expected[:stop]
    state = json.loads(json.dumps(before.state_dict()))  # a checkpoint holds plain values
    resumed = MADE[name]()
    resumed.load_state_dict(state)
    assert drawn(resumed, 16 - stop, first=stop) == expected[stop:]
    with pytest.raises(DataError, match="saved data order has seed 0, this one 1"):
        MADE[name](1).load_state_dict(state)


@pytest.mark.parametrize("name", MADE)
def test_more_rows_than_there_are_cannot_be_drawn(name):
    assert len(MADE[name]().next(20)) == 20
    for count in (0, 21):
        with pytest.raises(DataError, match=rf"a draw of {count} rows from a data set of 20"):
            MADE[name]().next(count)


def test_stages_open_by_success_easiest_first():
    order = MADE["staged"]()
    easiest = {i for i, row in enumerate(ROWS) if row["difficulty"] < 5}
    assert {index for _ in range(5) for index in order.next(1)} == easiest
    for scores in ([0, 0, 1], [0, 0, 1]):
        order.observe(0, scores)
    assert (order.stage, order.open) == (0, 5)  # a third of six is not enough
    order.observe(0, [1])
    assert (order.stage, order.open) == (1, 10)  # the newest six: 0 1 0 0 1 1
    order.observe(0, [1] * 5)
    assert order.stage == 1  # the window began anew
    assert {index for _ in range(10) for index in order.next(1)} == {
        i for i, row in enumerate(ROWS) if row["difficulty"] < 10
    }
    for _ in range(9):
        order.observe(0, [1] * 6)
    assert (order.stage, order.open) == (3, 20)


def test_a_draw_of_more_than_the_open_rows_goes_round_them():
    assert Counter(MADE["staged"]().next(12)) == Counter(dict.fromkeys(range(20), 0)) | Counter(
        MADE["staged"]().next(12)
    )
    assert set(MADE["staged"]().next(12)) == {i for i, row in enumerate(ROWS) if row["difficulty"] < 5}


def test_the_column_may_be_inside_a_struct_and_must_be_a_number():
    order = Staged(20, 0, ROWS, column="extra_info.level", stages=20)
    assert order.next(1) == [19]
    with pytest.raises(DataError, match=r"row 0: order.column='prompt' must hold a number; found 'q0'"):
        Staged(20, 0, ROWS, column="prompt")
    with pytest.raises(DataError, match="found None"):
        Staged(20, 0, ROWS, column="levl")
    with pytest.raises(DataError, match="stages=21"):
        Staged(20, 0, ROWS, stages=21)


def test_rows_that_sometimes_succeed_come_most_often():
    order = BySuccess(20, 0, ROWS, rate=1.0, floor=0.1)
    for index in range(20):
        order.observe(index, [1.0, 0.0] if index < 5 else [1.0] if index < 12 else [0.0])
    count = Counter(index for _ in range(2000) for index in order.next(1))
    # Chances: 5 rows at 1.1, 15 at 0.1: 1.1 of 7 each, and 0.1 of 7.
    assert all(abs(count[index] / 2000 - 1.1 / 7) < 0.03 for index in range(5))
    assert all(abs(count[index] / 2000 - 0.1 / 7) < 0.012 for index in range(5, 20))
    assert all(len(set(order.next(15))) == 15 for _ in range(5))


def test_running_success_moves_by_its_rate_and_unscored_rows_stay():
    order = BySuccess(20, 0, ROWS, column="rate", rate=0.25)
    assert order.expected.tolist() == [row["rate"] for row in ROWS]
    order.observe(0, [1.0, 0.0])
    order.observe(19, [-3.0])  # counts as 0
    order.observe(5, [])
    assert order.expected[[0, 19, 5]].tolist() == [0.125, 0.75, 5 / 19]


@pytest.mark.parametrize("options", [{"rate": 0}, {"rate": 1.5}, {"floor": 0}, {"column": "difficulty"}])
def test_options_of_by_success_out_of_range_are_refused(options):
    with pytest.raises(DataError, match="order=by_success"):
        BySuccess(20, 0, ROWS, **options)
