"""Losses and reductions on numbers worked out by hand, and the faults that users of other frameworks met with them."""

import math

import pytest
import torch

from rlcore.component import bind
from rlcore.errors import ComponentError, ConfigError
from rlcore.math import Counts, k3, masked_mean, weighted_loss
from rlcore_algorithms.losses import clipped, nll, policy_gradient, value_clipped
from rlcore_algorithms.reductions import (
    constant,
    prompt_mean,
    sequence_mean_token_mean,
    sequence_mean_token_sum,
    token_mean,
)

NAN, INF = float("nan"), float("inf")


def close(found, expected, tolerance=1e-6):
    torch.testing.assert_close(found, torch.tensor(expected, dtype=found.dtype), rtol=0, atol=tolerance)


def clipped_at(pairs, **options):
    """The clipped loss of (ratio, advantage) pairs, one token each."""
    ratio, advantage = torch.tensor(pairs).T
    mask = torch.ones(1, len(pairs), dtype=torch.bool)
    return clipped(ratio.log()[None], torch.zeros(1, len(pairs)), advantage[None], mask, **options)


@pytest.mark.parametrize("reduce_by_rank", [True, False])
def test_B25_ranks_with_different_token_counts_make_the_mean_of_the_whole(reduce_by_rank):
    losses = [torch.tensor([[4.0]]), torch.tensor([[1.0, 1, 1]])]
    masks = [torch.ones(1, 1, dtype=torch.bool), torch.ones(1, 3, dtype=torch.bool)]
    counts = Counts(tokens=4, rows=2)
    parts = [weighted_loss(x, token_mean(m, counts), m) for x, m in zip(losses, masks, strict=True)]
    # Gradient averaging divides by the ranks, so each rank's share is multiplied by them first.
    total = torch.stack([2 * part for part in parts]).mean() if reduce_by_rank else sum(parts)
    close(total, 7 / 4)


@pytest.mark.parametrize("reduction", [token_mean, sequence_mean_token_mean, sequence_mean_token_sum, constant])
def test_B25_a_reduction_without_counts_is_refused(reduction):
    with pytest.raises(TypeError):
        reduction(torch.ones(1, 1, dtype=torch.bool))


@pytest.mark.parametrize("width", [4, 7])
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_B26_the_constant_divides_by_neither_the_width_nor_the_microbatch(width, rows):
    loss, mask = torch.zeros(4, width), torch.zeros(4, width, dtype=torch.bool)
    for row, values in enumerate(([1.0, 1, 1, 1], [2.0, 2], [4.0], [1.0, 3])):
        loss[row, : len(values)] = torch.tensor(values)
        mask[row, : len(values)] = True
    counts = Counts.of(mask, max_new_tokens=4)
    pieces = zip(loss.split(rows), mask.split(rows), strict=True)
    close(sum(weighted_loss(x, constant(m, counts), m) for x, m in pieces), 16 / (4 * 4))


def test_the_constant_needs_a_length():
    mask = torch.ones(1, 2, dtype=torch.bool)
    close(constant(mask, Counts.of(mask), length=5), [[0.2, 0.2]])
    for length in (None, 0):
        with pytest.raises(ConfigError, match="a whole number above 0"):
            constant(mask, Counts.of(mask), length=length)


def test_B28_with_everything_masked_a_loss_through_a_model_is_0_and_has_gradients_of_0():
    logits = torch.randn(2, 3, 5, requires_grad=True)
    logprob = torch.log_softmax(logits, -1)[..., 0]
    mask = torch.zeros(2, 3, dtype=torch.bool)
    loss = clipped(logprob, torch.full((2, 3), -1.0), torch.ones(2, 3), mask).loss
    for reduction in (token_mean, sequence_mean_token_mean, sequence_mean_token_sum, bind(constant, length=3)):
        value = weighted_loss(loss, reduction(mask, Counts.of(mask)), mask)
        (gradient,) = torch.autograd.grad(value, logits, retain_graph=True)
        assert value == 0
        assert not gradient.any()


@pytest.mark.parametrize("garbage", [-INF, NAN, 1e6])
def test_B29_what_stands_off_the_mask_is_never_multiplied_by_0(garbage):
    logprob = torch.tensor([[-1.0, garbage]], requires_grad=True)
    mask = torch.tensor([[True, False]])
    output = clipped(logprob, torch.tensor([[-1.0, -300.0]]), torch.tensor([[1.0, 0.0]]), mask)
    value = weighted_loss(output.loss, token_mean(mask, Counts.of(mask)), mask)
    value.backward()
    close(value.detach(), -1.0)
    close(logprob.grad, [[-1.0, 0.0]])
    for metric in output.metrics.values():
        x = metric[0] if isinstance(metric, tuple) else metric
        assert x.isfinite().all()


def test_B34_the_dual_clip_bounds_negative_advantages_only():
    pairs = [(1.0, 1.0), (10.0, 1.0), (10.0, -1.0), (2.0, -1.0), (0.5, -1.0)]
    output = clipped_at(pairs, dual_clip=3.0)
    close(output.loss, [[-1, -1.2, 3, 2, 0.8]])
    close(output.metrics["dual_clip_share"], [[0.0, 0, 1, 0, 0]], 0)
    close(clipped_at(pairs).loss, [[-1, -1.2, 10, 2, 0.8]], 1e-5)


@pytest.mark.parametrize("bound", [1.0, 0.5, -3.0])
def test_B34_a_dual_clip_of_1_or_less_is_refused(bound):
    with pytest.raises(ConfigError, match="dual_clip"):
        clipped_at([(1.0, 1.0)], dual_clip=bound)


def test_B35_clip_low_holds_the_ratio_from_below_and_clip_high_from_above():
    pairs = [(1.25, 1.0), (1.3, 1.0), (0.75, -1.0), (0.75, 1.0), (1.3, -1.0)]
    output = clipped_at(pairs, clip_low=0.2, clip_high=0.28)
    close(output.loss, [[-1.25, -1.28, 0.8, -0.75, 1.3]])
    close(output.metrics["clip_share"], [[0.0, 1, 1, 0, 0]], 0)


@pytest.mark.parametrize("bounds", [{"clip_low": 3.0}, {"clip_low": -0.1}, {"clip_high": -0.1}])
def test_B35_bounds_that_make_no_sense_are_refused(bounds):
    with pytest.raises(ConfigError, match="clip_"):
        clipped_at([(1.0, 1.0)], **bounds)


def test_B37_with_nothing_changed_the_ratio_is_1_and_the_kl_0():
    logprob = torch.tensor([[-0.018150, -2.0]])
    output = clipped(logprob, logprob.clone(), torch.tensor([[1.0, -2.0]]), torch.ones(1, 2, dtype=torch.bool))
    close(output.metrics["ratio"], [[1.0, 1.0]], 0)
    close(output.metrics["old_kl"], [[0.0, 0.0]], 0)
    close(output.loss, [[-1.0, 2.0]], 0)


def test_B40_the_value_clip_share_counts_values_that_moved_too_far_whatever_the_target():
    mask = torch.tensor([[True, False]])
    for target in (-5.0, 0.0, 5.0):
        output = value_clipped(
            torch.tensor([[1.0, 9.0]]), torch.zeros(1, 2), torch.full((1, 2), target), mask, clip=0.2
        )
        close(masked_mean(output.metrics["value_clip_share"], mask), 1.0)


def test_the_value_loss_by_hand():
    now, before, target = torch.tensor([[1.0, 0.1, 1.0]]), torch.zeros(1, 3), torch.tensor([[2.0, 2.0, 0.0]])
    mask = torch.ones(1, 3, dtype=torch.bool)
    # Clipped values 0.2, 0.1, 0.2: squares 3.24 over 1, 3.61, and 1 over 0.04.
    output = value_clipped(now, before, target, mask, clip=0.2)
    close(output.loss, [[1.62, 1.805, 0.5]])
    close(output.metrics["value_clip_taken_share"], [[1.0, 0, 0]], 0)
    close(value_clipped(now, before, target, mask, clip=None).loss, [[0.5, 1.805, 0.5]])
    with pytest.raises(ConfigError, match="negative"):
        value_clipped(now, before, target, mask, clip=-0.1)


def test_plain_losses_by_hand():
    logprob, mask = torch.tensor([[-1.0, -2, -3]]), torch.tensor([[True, True, False]])
    close(policy_gradient(logprob, torch.tensor([[2.0, -1, 5]]), mask), [[2.0, -2, 0]])
    close(nll(logprob, mask), [[1.0, 2, 0]])


def test_the_clipped_gradient_stops_outside_the_bounds_and_at_log_ratios_beyond_20():
    difference = torch.tensor([[0.0, 1.0, -1.0, 1.0, 19.0, 25.0]], requires_grad=True)
    advantage = torch.tensor([[1.0, 1.0, -1.0, -1.0, -1.0, -1.0]])
    loss = clipped(difference, torch.zeros(1, 6), advantage, torch.ones(1, 6, dtype=torch.bool)).loss
    loss.sum().backward()
    expected = [[-1.0, 0.0, 0.0, math.e, math.exp(19), 0.0]]
    torch.testing.assert_close(difference.grad, torch.tensor(expected), rtol=1e-5, atol=1e-6)


def test_reductions_by_hand():
    # Rows of 3, 1 and 0 trained tokens; losses 1 2 3, 5, nothing; prompts 7, 7, 8.
    mask = torch.tensor([[True, True, True], [True, False, False], [False, False, False]])
    loss = torch.tensor([[1.0, 2, 3], [5, NAN, NAN], [NAN, NAN, NAN]])
    group = torch.tensor([7, 7, 8])
    counts = Counts.of(mask, group, max_new_tokens=10)
    assert (counts.tokens, counts.rows, counts.groups) == (4, 2, 1)
    assert (dict(counts.group_tokens), dict(counts.group_rows)) == ({7: 4}, {7: 2})
    expected = {
        token_mean: 11 / 4,
        sequence_mean_token_mean: (2 + 5) / 2,
        sequence_mean_token_sum: (6 + 5) / 2,
        constant: 11 / 20,
    }
    for reduction, value in expected.items():
        close(weighted_loss(loss, reduction(mask, counts), mask), value)
    close(weighted_loss(loss, prompt_mean(mask, group, counts), mask), 11 / 4)


def test_the_prompt_mean_weighs_prompts_alike():
    # Prompt 1 has tokens 1, 2, 3 over two rows, prompt 2 has 10: (2 + 10) / 2.
    mask = torch.tensor([[True, True], [True, False], [True, False]])
    loss, group = torch.tensor([[1.0, 2], [3, 0], [10, 0]]), torch.tensor([1, 1, 2])
    close(weighted_loss(loss, prompt_mean(mask, group, Counts.of(mask, group)), mask), 6.0)
    with pytest.raises(ConfigError, match="counts per group"):
        prompt_mean(mask, group, Counts.of(mask))


def test_a_loss_of_one_value_a_row_needs_a_reduction_of_rows():
    mask, loss = torch.tensor([[True, True], [True, False], [False, False]]), torch.tensor([2.0, 4.0, NAN])
    close(weighted_loss(loss, sequence_mean_token_mean(mask, Counts.of(mask)), mask), 3.0)
    with pytest.raises(ComponentError, match="one weight per row"):
        weighted_loss(loss, token_mean(mask, Counts.of(mask)), mask)


def test_a_kl_term_beside_a_loss_shares_its_counts():
    mask = torch.ones(1, 2, dtype=torch.bool)
    kl = k3(torch.tensor([[-1.0, -1.5]]), torch.tensor([[-1.5, -1.0]]))
    close(weighted_loss(kl, token_mean(mask, Counts.of(mask)), mask), (0.106531 + 0.148721) / 2)
