"""KL estimates, the clamped ratio and what is read off logits: numbers by hand and public faults."""

import math

import pytest
import torch

from rlcore.math import entropy, k1, k2, k3, log_ratio, logprob, square_sum


def close(found, expected, tolerance=1e-6):
    torch.testing.assert_close(found, torch.tensor(expected, dtype=found.dtype), rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [(k1, [0.5, -0.5, 0]), (k2, [0.125, 0.125, 0]), (k3, [0.106531, 0.148721, 0])],
)
def test_B32_the_three_estimators_give_three_different_numbers(estimator, expected):
    close(estimator(torch.tensor([-1.0, -1.5, -1]), torch.tensor([-1.5, -1.0, -1])), expected)


@pytest.mark.parametrize("distance", [100.0, -100.0, 89.0, 1e4])
def test_B31_k3_stays_finite_and_never_below_0(distance):
    log = torch.tensor([-1.0], requires_grad=True)
    value = k3(log, torch.tensor([-1.0 + distance]))
    value.sum().backward()
    assert value.isfinite().all()
    assert (value >= 0).all()
    assert log.grad.isfinite().all()


def test_B31_k3_is_not_cut_off_where_it_still_has_a_gradient():
    # At d = 3 the value is e^3 - 4 = 16.09: a clamp of the value at 10 would have stopped the gradient there.
    log = torch.tensor([-4.0], requires_grad=True)
    value = k3(log, torch.tensor([-1.0]))
    value.sum().backward()
    close(value.detach(), [math.exp(3) - 4], 1e-4)
    close(log.grad, [1 - math.exp(3)], 1e-4)


def test_k3_keeps_its_digits_near_0_and_never_falls_below_it():
    difference = torch.logspace(-9, -1, 200)
    value = k3(torch.zeros(200), torch.cat([difference[:100], -difference[100:]]))
    assert (value >= 0).all()
    close(k3(torch.tensor([0.0]), torch.tensor([1e-3])) * 1e6, [0.500167], 1e-4)


def test_the_gradient_of_k2_is_the_difference_and_that_of_k1_a_constant():
    for estimator, expected in ((k1, [1.0, 1.0]), (k2, [0.5, -0.5])):
        log = torch.tensor([-1.0, -1.5], requires_grad=True)
        estimator(log, torch.tensor([-1.5, -1.0])).sum().backward()
        close(log.grad, expected)


def test_the_log_ratio_is_clamped_with_the_gradient_of_the_clamped_value():
    log = torch.tensor([-1.0, -500.0, 300.0], requires_grad=True)
    value = log_ratio(log, torch.tensor([-1.5, -1.0, -1.0]))
    close(value.detach(), [0.5, -20.0, 20.0])
    value.sum().backward()
    close(log.grad, [1.0, 0, 0], 0)


def test_B37_a_log_probability_is_that_of_the_logits_divided_by_the_temperature():
    logits, token = torch.tensor([[2.0, 0.0]]), torch.tensor([0])
    close(logprob(logits / 0.5, token), [-0.018150])
    close(logprob(logits, token), [-0.126928])


def test_B38_a_tokens_log_probability_is_read_at_the_position_before_it():
    probability = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])
    tokens, prompt_length = torch.tensor([0, 1, 2]), 1
    close(logprob(probability.log()[prompt_length - 1 : -1], tokens[prompt_length:]), [-1.609438, -1.203973])


def test_readouts_of_a_known_distribution():
    probability = torch.tensor([[0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]])
    logits, token = probability.log() + 7.0, torch.tensor([1, 0])
    close(logprob(logits, token), [math.log(0.25), math.log(1 / 3)])
    close(entropy(logits, token), [1.5 * math.log(2), math.log(3)])
    close(square_sum(logits, token), [0.375, 1 / 3])


def test_readouts_take_tokens_of_probability_0():
    logits, token = torch.tensor([[0.0, -math.inf, 0.0]], requires_grad=True), torch.tensor([0])
    close(logprob(logits, token).detach(), [-math.log(2)])
    close(entropy(logits, token).detach(), [math.log(2)])
    close(square_sum(logits, token).detach(), [0.5])
    entropy(logits, token).sum().backward()
    assert logits.grad.isfinite().all()


def test_readouts_of_large_logits_stay_finite():
    logits, token = torch.tensor([[3000.0, -3000.0]]), torch.tensor([1])
    for readout, expected in ((logprob, -6000.0), (entropy, 0.0), (square_sum, 1.0)):
        close(readout(logits, token), [expected], 1e-3)
