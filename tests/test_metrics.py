import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.errors import ComponentError
from rlcore.metrics import KINDS, Metric, Metrics, is_measured

NAN, INF = math.nan, math.inf


def made(values, mask=None, kind="mean"):
    metrics = Metrics()
    metrics.add("x", values, mask, kind)
    return metrics


@pytest.mark.parametrize(("kind", "expected"), [("mean", 2.0), ("sum", 6.0), ("max", 4.0), ("min", 0.5)])
def test_each_kind_gives_its_number_over_the_entries_that_vote(kind, expected):
    assert made([[0.5, 1.5, 4.0], [NAN, 100.0, -100.0]], [[1, 1, 1], [1, 0, 0]], kind).values() == {"x": expected}


@pytest.mark.parametrize("kind", KINDS)
def test_masked_garbage_never_leaks(kind):
    mask = torch.tensor([True, False, True])
    expected = made([1.0, 2.0, 3.0], mask, kind).values()
    for garbage in (1e6, -INF, INF, NAN):
        assert made([1.0, garbage, 3.0], mask, kind).values() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_metric_without_a_vote_is_left_out_and_does_not_disturb_a_merge(kind):
    for nothing in (made([], None, kind), made([NAN], None, kind), made([1.0], [False], kind)):
        assert nothing.values() == {}
        some = made([-5.0], None, kind)
        some.merge(nothing)
        nothing.merge(some)
        assert some.values() == nothing.values() == {"x": -5.0}


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6) | st.just(NAN), min_size=1, max_size=12), st.integers(0, 12), st.sampled_from(KINDS)
)
def test_merging_any_split_equals_the_whole(entries, cut, kind):
    whole, left = made(entries, None, kind), made(entries[:cut], None, kind)
    left.merge(made(entries[cut:], None, kind))
    assert left.values() == pytest.approx(whole.values(), rel=1e-12, abs=1e-9)


def test_no_average_of_averages_is_taken():
    one, two = made([1.0]), made([2.0, 2.0, 2.0])
    one.merge(two)
    assert one.values() == {"x": 1.75}


def test_a_float_mask_weighs_entries():
    assert made([1.0, 5.0], [3.0, 1.0]).values() == {"x": 2.0}


def test_a_row_mask_spreads_over_its_tokens():
    assert made([[1.0, 3.0], [9.0, 9.0]], torch.tensor([[True], [False]])).values() == {"x": 2.0}


def test_numbers_vote_with_their_weight():
    metrics = Metrics()
    metrics.put("x", 1.0)
    metrics.put("x", 4.0, weight=2)
    metrics.put("x", NAN, weight=5)
    metrics.put("x", 7.0, weight=0)
    assert metrics.values() == {"x": 3.0}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_sums_are_exact_whatever_the_dtype(dtype):
    assert made(torch.ones(100_000, dtype=dtype), None, "sum").values() == {"x": 100_000.0}


def test_gradients_are_not_kept():
    assert made(torch.ones(2, requires_grad=True)).values() == {"x": 1.0}


def test_one_name_has_one_kind():
    metrics = made([1.0], None, "max")
    with pytest.raises(ComponentError, match="'x' is a max and cannot become a mean"):
        metrics.add("x", [1.0])
    with pytest.raises(ComponentError, match="'median' is none of mean, sum, max, min"):
        metrics.add("y", [1.0], kind="median")


def test_a_prefix_tells_two_roles_apart():
    metrics = Metrics()
    metrics.merge(made([1.0]), prefix="critic/")
    assert metrics.values() == {"critic/x": 1.0}
    assert "critic/x" in metrics
    assert len(metrics) == 1


def test_metrics_cross_processes():
    assert pickle.loads(pickle.dumps(made([1.0, 2.0])))["x"] == Metric(3.0, 2.0)


def test_what_a_clock_made_is_known_by_name():
    assert is_measured("seconds/step")
    assert is_measured("speed/rollout_tokens")
    assert not is_measured("score")
