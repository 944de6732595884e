"""Masked statistics, whitening, counts, placing, recursions: numbers by hand and public faults."""

import sys

import pytest
import torch

from rlcore.math import (
    Counts,
    gae,
    masked,
    masked_mean,
    masked_sum,
    masked_var,
    place_on_last_token,
    reward_to_go,
    subtract_kl,
    whiten,
)

NAN = float("nan")


def close(found, expected, tolerance=1e-6):
    torch.testing.assert_close(found, torch.tensor(expected, dtype=found.dtype), rtol=0, atol=tolerance)


def test_masked_statistics_never_look_off_the_mask():
    x, mask = torch.tensor([[1.0, NAN], [3, 8]]), torch.tensor([[True, False], [True, True]])
    close(masked(x, mask), [[1.0, 0], [3, 8]], 0)
    close(masked_sum(x, mask), 12.0)
    close(masked_mean(x, mask), 4.0)
    close(masked_mean(x, mask, dim=1), [1.0, 5.5])
    close(masked_var(x, mask), 13.0)
    close(masked_var(x, mask, bessel=False), 26 / 3)


@pytest.mark.parametrize("on", [[False, False], [True, False]])
def test_statistics_of_fewer_than_two_are_0_and_not_nan(on):
    x, mask = torch.tensor([2.0, NAN]), torch.tensor(on)
    close(masked_var(x, mask), 0.0, 0)
    close(masked_mean(x, mask), 2.0 if any(on) else 0.0, 0)


def test_B10_whitening_of_fewer_than_two_returns_them_unchanged():
    close(whiten(torch.tensor([2.0, NAN]), torch.tensor([True, False])), [2.0, 0], 0)
    close(whiten(torch.tensor([NAN, NAN]), torch.tensor([False, False])), [0.0, 0], 0)


def test_B11_whitening_of_equal_values_is_exactly_0_and_blocks_change_nothing(monkeypatch):
    assert not whiten(torch.full((7,), 0.35), torch.ones(7, dtype=torch.bool)).any()
    x, mask = torch.tensor([1.0, 3, NAN, 5, 7, 9]), torch.tensor([True, True, False, True, True, True])
    monkeypatch.setattr(sys.modules["rlcore.math.whiten"], "_BLOCK", 2)
    close(whiten(x, mask, epsilon=0.0), [-1.264911, -0.632456, 0, 0, 0.632456, 1.264911])


def test_counts_leave_out_rows_without_a_trained_token():
    mask, group = torch.tensor([[True, True], [True, False], [False, False]]), torch.tensor([7, 7, 8])
    counts = Counts.of(mask, group, max_new_tokens=5)
    assert (counts.tokens, counts.rows, counts.groups) == (3, 2, 1)
    assert (counts.group_tokens, counts.group_rows) == ({7: 3}, {7: 2})


def test_a_score_is_placed_once_a_session_on_the_last_part_that_has_a_token():
    sampled = torch.tensor([[True, True, False], [False, True, False], [False, False, False], [True, False, False]])
    session, part = torch.tensor([4, 4, 4, 9]), torch.tensor([0, 1, 2, 0])
    placed = place_on_last_token(torch.tensor([0.5, 0.5, 0.5, 2.0]), sampled, session, part)
    close(placed.reward, [0.0, 0.5, 0, 2], 0)
    close(placed.token_reward, [[0.0, 0, 0], [0, 0.5, 0], [0, 0, 0], [2, 0, 0]], 0)


@pytest.mark.parametrize("score", [NAN, 3.0])
def test_B14_nothing_is_placed_where_there_is_no_token_or_no_score(score):
    sampled = torch.tensor([[False, False], [True, True]]) if score == 3.0 else torch.ones(2, 2, dtype=torch.bool)
    placed = place_on_last_token(torch.tensor([score, 0.0]), sampled)
    assert not placed.token_reward.any()
    assert not placed.reward.any()


def test_B19_a_penalty_is_taken_off_both_forms_of_the_reward_and_only_at_sampled_tokens():
    sampled = torch.tensor([[True, False, False, True]])
    found = subtract_kl(
        torch.tensor([1.0]), torch.tensor([[0.0, 0, 0, 1]]), sampled, torch.tensor([[0.1, 5, NAN, 0.2]]), 0.1
    )
    close(found.token_reward, [[-0.01, 0, 0, 0.98]])
    close(found.reward, [0.97])


@pytest.mark.parametrize("masked_value", [9.0, NAN, 1e6])
def test_B16_recursions_step_over_holes(masked_value):
    reward = torch.tensor([[0.0, masked_value, masked_value, 1]])
    value, mask = torch.tensor([[0.5, masked_value, masked_value, 0.25]]), torch.tensor([[True, False, False, True]])
    close(gae(reward, value, mask, lam=0.95), [[0.4625, 0, 0, 0.75]])
    close(reward_to_go(reward, mask, gamma=0.5), [[0.5, 0, 0, 1]])


def test_recursions_over_holes_equal_those_of_compacted_rows_bit_for_bit():
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand(5, 40, generator=generator) < 0.6
    reward, value = (torch.randn(5, 40, generator=generator) for _ in range(2))
    with_holes = gae(reward, value, mask, gamma=0.9, lam=0.8)
    to_go = reward_to_go(reward, mask, gamma=0.9)
    for row in range(5):
        on = mask[row]
        compact = [x[row][on][None] for x in (reward, value)]
        full = torch.ones_like(compact[0], dtype=torch.bool)
        assert torch.equal(gae(*compact, full, gamma=0.9, lam=0.8)[0], with_holes[row][on])
        assert torch.equal(reward_to_go(compact[0], full, gamma=0.9)[0], to_go[row][on])


def test_recursions_do_not_care_into_how_many_blocks_the_rows_are_cut(monkeypatch):
    generator = torch.Generator().manual_seed(1)
    mask = torch.rand(7, 5, generator=generator) < 0.7
    reward, value, last = torch.randn(7, 5, generator=generator), torch.randn(7, 5), torch.randn(7)
    whole = gae(reward, value, mask, gamma=0.9, bootstrap_value=last)
    monkeypatch.setattr("rlcore.math.returns._ROWS", 3)
    assert torch.equal(gae(reward, value, mask, gamma=0.9, bootstrap_value=last), whole)


def test_rewards_and_values_may_differ_in_type():
    reward, value = torch.tensor([[0.0, 1.0]], dtype=torch.float64), torch.tensor([[0.5, 0.25]])
    found = gae(reward, value, torch.ones(1, 2, dtype=torch.bool), lam=0.95)
    assert found.dtype == torch.float64
    close(found, [[0.4625, 0.75]])
    assert gae(reward.bfloat16(), value, torch.ones(1, 2, dtype=torch.bool)).dtype == torch.float32


def test_recursions_over_nothing_are_nothing():
    for shape in ((0, 3), (2, 0)):
        x, mask = torch.zeros(shape), torch.zeros(shape, dtype=torch.bool)
        assert gae(x, x, mask).shape == shape
        assert reward_to_go(x, mask).shape == shape
