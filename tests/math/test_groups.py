"""Group statistics and the norm on numbers worked out by hand."""

import itertools

import pytest
import torch

from rlcore.math import group_center, group_max, group_mean, group_min, group_size, group_std, group_sum, peer_std
from rlcore_algorithms.advantages import norm

X = torch.tensor([1.0, 10, 3, 14, 8])
GROUP = torch.tensor([70, -2, 70, -2, 5])


def close(found, expected, tolerance=1e-6):
    torch.testing.assert_close(found, torch.tensor(expected, dtype=found.dtype), rtol=0, atol=tolerance)


def test_statistics_of_interleaved_unequal_groups():
    assert group_size(GROUP).tolist() == [2, 2, 2, 2, 1]
    close(group_sum(X, GROUP), [4.0, 24, 4, 24, 8])
    close(group_mean(X, GROUP), [2.0, 12, 2, 12, 8])
    close(group_center(X, GROUP), [-1.0, -2, 1, 2, 0])
    close(group_max(X, GROUP), [3.0, 14, 3, 14, 8])
    close(group_min(X, GROUP), [1.0, 10, 1, 10, 8])
    close(group_std(X, GROUP), [2**0.5, 8**0.5, 2**0.5, 8**0.5, 0])
    close(group_std(X, GROUP, bessel=False), [1.0, 2, 1, 2, 0])


def test_negative_values_are_not_beaten_by_an_empty_slot():
    close(group_max(torch.tensor([-3.0, -1]), torch.tensor([0, 0])), [-1.0, -1], 0)
    close(group_min(torch.tensor([3.0, 1]), torch.tensor([0, 0])), [1.0, 1], 0)


@pytest.mark.parametrize("value", [0.1, 0.3, 0.35, 0.95])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_B07_the_mean_of_equal_values_is_that_value_and_their_deviation_0(value, dtype):
    for n in range(1, 12):
        x, group = torch.full((n,), value, dtype=dtype), torch.zeros(n, dtype=torch.int64)
        assert torch.equal(group_mean(x, group), x)
        assert not group_center(x, group).any()
        assert not group_std(x, group).any()
        assert not peer_std(x, group).any()


def test_the_deviation_of_peers_is_that_of_the_group_without_the_row():
    for values in itertools.product([0.0, 0.35, 1.0], repeat=4):
        x = torch.tensor(values)
        found = peer_std(x, torch.zeros(4, dtype=torch.int64))
        for row in range(4):
            others = torch.cat([x[:row], x[row + 1 :]])
            expected = 0.0 if others.max() == others.min() else float(others.double().std())
            assert float(found[row]) == pytest.approx(expected, abs=1e-7)
            assert (found[row] == 0) == (others.max() == others.min())


def test_the_deviation_of_fewer_than_two_peers_is_0():
    close(peer_std(torch.tensor([1.0, 5, 7]), torch.tensor([0, 0, 1])), [0.0, 0, 0], 0)


def test_no_rows_have_no_statistics():
    empty, none = torch.tensor([]), torch.tensor([], dtype=torch.int64)
    for statistic in (group_mean, group_sum, group_std, group_max, group_min, group_center, peer_std, norm):
        assert statistic(empty, none).shape == (0,)


def test_a_norm_over_the_batch_takes_all_rows_as_one_group():
    # 1, 10, 3, 14, 8: mean 7.2, squares 38.44 7.84 17.64 46.24 0.64 = 110.8, over 4 is 27.7.
    found = norm(X, GROUP, center="batch", scale="batch", epsilon=0.0)
    close(found, [(x - 7.2) / 27.7**0.5 for x in X.tolist()])


def test_a_norm_may_center_on_the_group_and_scale_by_the_batch():
    close(norm(X, GROUP, center="group", scale="batch", epsilon=0.0), [x / 27.7**0.5 for x in (-1, -2, 1, 2, 0)])


def test_a_norm_may_leave_center_or_scale_out():
    close(norm(X, GROUP, center="none", scale="none"), X.tolist(), 0)
    close(norm(X, GROUP, center="group", scale="none"), [-1.0, -2, 1, 2, 0])


def test_a_norm_without_bessel_divides_by_all_rows():
    close(norm(X, GROUP, bessel=False, epsilon=0.0), [-1.0, -1, 1, 1, 0])
