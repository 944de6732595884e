from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

from rlcore_sandbox.inside.plain import NotPlainError, dumps, loads, refuse_held

VALUES = [
    *(None, True, 0, -1, 2**63, -(2**200), 0.5, float("inf"), "", "é\ud800\n", b"\x00\xff", 1 + 2j, range(2, 9, 3)),
    *([], [1, [2, (3,)]], (), {}, {(1, 2): {3: [4]}}, {1, 2}, frozenset({1}), bytearray(b"a")),
    *(Fraction(1, 3), Decimal("1.50"), {"int": "0x1"}, {"held": 3}, [{"tuple": []}]),
    *(Counter("aab"), OrderedDict(b=1, a=2), deque([1, (2,)], 3), deque(), slice(1, None, 2), timedelta(-1, 5, 6)),
    *(datetime(2024, 2, 29, 1, 2, 3, 4), datetime(2024, 1, 1, tzinfo=UTC), date(1, 1, 1), time(23, 59)),
]


def exact(left, right):
    return type(left) is type(right) and (left == right or left != left)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_plain_value_comes_back_as_it_was(value):
    assert exact(loads(dumps(value, refuse_held), refuse_held), value)


class Loud(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__

    def __int__(self):
        return 42

    __index__ = __int__


class Pair(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Loud(7), 7),
        (IntEnum("E", "a b").b, 2),
        (defaultdict(list, a=[1]), {"a": [1]}),
        (Pair(1, 2), (1, 2)),
        (np.int64(3), 3),
        (np.float64(0.5), 0.5),
        (np.bool_(True), True),
    ],
    ids=repr,
)
def test_of_a_subclass_only_the_value_goes(value, plain):
    assert exact(loads(dumps(value, refuse_held), refuse_held), plain)


@pytest.mark.parametrize(
    "value",
    [object(), print, int, iter([1]), np.arange(3), [1, {2: object()}]],
    ids=["object", "function", "class", "iterator", "array", "inside"],
)
def test_what_is_no_plain_data_is_refused(value):
    with pytest.raises(NotPlainError):
        dumps(value, refuse_held)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1", '{"a": 1, "b": 2}', "{}", '{"eval": "1"}', '{"held": 1}', '{"held": "1"}', '{"int": 5}'),
        *('{"set": [[1]]}', '{"dict": [1]}', '{"bytes": "zz"}', '{"Fraction": [1, 0]}', '{"Decimal": "x"}'),
        *(
            '{"deque": [1]}',
            '{"slice": []}',
            '{"date": "x"}',
            '{"datetime": 5}',
            '{"timedelta": [1e99]}',
            '{"Counter": 1}',
        ),
        *('{"range": [1, 2, 0]}', '{"complex": ["a", 1]}', "[" * 100_000, '{"tuple": 5}', '{"tuple": null}'),
    ],
    ids=lambda text: text[:20] or "empty",
)
def test_any_other_text_is_refused(text):
    with pytest.raises(NotPlainError):
        loads(text, refuse_held)


def test_what_holds_itself_is_refused():
    value = []
    value.append(value)
    with pytest.raises(NotPlainError):
        dumps(value, refuse_held)
