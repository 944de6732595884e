"""Settings that neither the recorded cases nor the plain versions reach, against the formula written out in NumPy."""

import numpy as np
import pytest
import torch

from rlcore.component import bind, invoke
from rlcore.math import entropy_bonus, k3
from rlcore_algorithms import corrections
from rlcore_algorithms.advantages import (
    group_norm,
    leave_one_out,
    length_weighted_baseline,
    process_leave_one_out,
    weighted_sum,
)
from rlcore_algorithms.kls import k3_unbiased
from rlcore_algorithms.losses import clipped, outcome_cross_entropy

NOW = np.array([[-0.5, -1.0, -0.2], [-2.0, -0.1, -0.7]])
OLD = np.array([[-0.9, -0.4, -0.3], [-0.6, -0.8, -0.7]])
REF = np.array([[-0.7, -1.2, -0.2], [-1.0, -0.3, -0.2]])
MASK = np.array([[True, True, False], [True, True, True]])
GAIN = np.array([[1.0, -2.0, 0.0], [-1.0, 0.5, -0.3]])


def t(x):
    return torch.tensor(x)


def test_k3_unbiased_takes_one_ratio_a_row():
    mean = np.array([np.mean((NOW - OLD)[i][MASK[i]]) for i in range(2)])
    d = REF - NOW
    expected = np.exp(mean)[:, None] * (np.exp(d) - 1 - d)
    found = k3_unbiased(t(NOW), t(REF), t(OLD), t(MASK), level="sequence").numpy()
    assert np.abs(found - expected)[MASK].max() < 1e-12


def test_the_cap_holds_the_plain_side_of_clipped():
    now = OLD + np.array([[1.5, 1.2, 0.0], [1.1, -0.9, 0.9]])
    ratio = np.exp(now - OLD)
    expected = np.maximum(-GAIN * np.minimum(ratio, 2.0), -GAIN * np.clip(ratio, 0.8, 1.2))
    found = clipped(t(now), t(OLD), t(GAIN), t(MASK), dual_clip=2.0).loss.numpy()
    assert np.abs(found - np.where(MASK, expected, 0)).max() < 1e-12


def test_the_entropy_term_rewards_entropy():
    assert entropy_bonus(t(np.array([[0.3, 0.7]]))).tolist() == [[-0.3, -0.7]]


def test_probabilities_are_compared_after_the_kept_mass():
    mass = -0.3 * MASK.astype(float)
    metrics = corrections.measured(t(NOW), t(OLD), t(mass), t(MASK)).metrics
    apart = np.where(MASK, np.abs(np.exp(NOW - mass) - np.exp(OLD)), 0)
    assert np.abs(metrics["probability_difference"].numpy() - apart).max() < 1e-6
    assert np.abs(metrics["probability_difference_max"][0].numpy() - apart).max() < 1e-6


def test_weights_of_mean_0_are_divided_by_nothing():
    weight = torch.zeros(2, 3)
    assert not corrections.normalized(weight, t(MASK)).weight.any()
    small = torch.full((2, 3), 1e-9).where(t(MASK), 0)
    assert torch.equal(corrections.normalized(small, t(MASK)).weight, small)


@pytest.mark.parametrize("keep", [False, True])
def test_a_single_row_keeps_its_reward_only_if_asked(keep):
    reward, group, length = t(np.array([0.5, 1.0, 0.0])), torch.tensor([4, 9, 9]), torch.tensor([2, 2, 2])
    found = length_weighted_baseline(reward, group, length, keep_single=keep)
    assert found.tolist() == [0.5 if keep else 0.0, 0.5, -0.5]


def test_two_estimators_are_weighed_and_added():
    reward, group = t(np.array([1.0, 0.0, 0.0])), torch.tensor([1, 1, 1])
    first, second = bind(group_norm, scale_by_std=False), leave_one_out
    one, other = group_norm(reward, group, scale_by_std=False), leave_one_out(reward, group)
    columns = {"reward": reward, "group": group, "length": torch.tensor([2, 1, 2]), "sampled": torch.ones(3, 2).bool()}
    part = bind(weighted_sum, first=first, second=second, first_weight=0.25, second_weight=3.0)
    assert torch.allclose(invoke(part, columns), 0.25 * one + 3 * other, atol=1e-12)


def test_a_process_reward_is_held_against_the_other_samples():
    process = np.array([[0.5, -1.0, 0.2], [0.3, 0.4, 0.0], [1.0, 0.0, 0.0]])
    length, group, reward = np.array([3, 2, 1]), np.array([7, 7, 7]), np.array([1.0, 0.0, 0.5])
    means = process.sum(1) / length
    expected = np.zeros_like(process)
    for i in range(3):
        others = [j for j in range(3) if j != i]
        for t_ in range(length[i]):
            to_come = sum(0.9 ** (s - t_) * (process[i, s] - means[others].mean()) for s in range(t_, length[i]))
            expected[i, t_] = 2.0 * to_come + reward[i] - reward[others].mean()
    found = process_leave_one_out(t(reward), t(process), t(group), t(length), gamma=0.9, process_weight=2.0).numpy()
    assert np.abs(found - expected).max() < 1e-12
    alone = process_leave_one_out(t(reward), t(process), torch.tensor([7, 8, 9]), t(length))
    assert not alone.any()


def test_the_cross_entropy_is_that_of_the_implicit_reward():
    score = np.array([1.0, 0.25])
    implicit = 0.3 * np.where(MASK, NOW - REF, 0).sum(1)
    p = 1 / (1 + np.exp(-implicit))
    expected = -score * np.log(p) - (1 - score) * np.log(1 - p)
    output = outcome_cross_entropy(t(NOW), t(REF), t(score), t(MASK), beta=0.3)
    assert np.abs(output.loss.numpy() - expected).max() < 1e-12
    assert output.metrics["accuracy"].tolist() == ((implicit > 0) == (score > 0.5)).astype(float).tolist()
    half = outcome_cross_entropy(t(NOW), t(NOW - 0.1), t(np.array([0.504, 0.504])), t(MASK)).metrics["accuracy"]
    assert half.tolist() == [1.0, 1.0]


def test_the_largest_mismatch_of_a_row_looks_at_both_bounds():
    d = np.log([[1.1, 0.3, 1.0], [0.4, 0.45, 0.4], [1.1, 0.9, 1.0]])
    on, zero = torch.ones(3, 3).bool(), torch.zeros(3, 3)
    kept = corrections.rejected(t(d), zero, zero, on, level="sequence_max", low=0.5, high=2.0).mask
    assert kept.all(1).tolist() == kept.any(1).tolist() == [False, False, True]


def test_the_spread_of_what_was_measured_is_taken_within_the_bounds():
    d = np.array([[0.2, 2.0, -0.4], [0.1, -0.3, 0.6]])
    on, zero = torch.ones(2, 3).bool(), torch.zeros(2, 3)
    metrics = corrections.rejected(t(d), zero, zero, on, measure="k2", low=None, high=0.5).metrics
    row = (0.5 * np.square(d)).mean(1)
    near = np.clip(np.repeat(row[:, None], 3, 1), 0.0, 0.5)
    assert abs(float(metrics["measured_std"]) - near.std()) < 1e-9


def test_a_ceiling_holds_the_value_of_k3():
    d = np.array([[0.1, 4.0, -1.0]])
    expected = np.minimum(np.exp(d) - 1 - d, 10.0)
    assert np.abs(k3(t(0 * d), t(d), ceiling=10.0).numpy() - expected).max() < 1e-12
