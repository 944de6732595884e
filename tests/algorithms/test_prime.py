"""PRIME: its parts worked by hand, the models that it loads, and where its reward model is trained."""

from __future__ import annotations

import math

import pytest
import torch

from rlcore.graph import Node
from rlcore_algorithms import prime
from rlcore_algorithms.advantages import process_leave_one_out
from rlcore_algorithms.losses import outcome_cross_entropy
from rlcore_algorithms.shaping import implicit_process_reward


def test_a_token_gets_its_process_reward_to_come_and_both_baselines():
    # Group of two. Mean process rewards per token: (1 + 3) / 2 = 2 and 4; each is the other's baseline.
    # Row 0: (1 - 4) + (3 - 4) = -4 and 3 - 4 = -1, plus the outcome 1 - 0; row 1: 4 - 2 = 2, minus 1.
    found = process_leave_one_out(
        torch.tensor([1.0, 0.0]), torch.tensor([[1.0, 3.0], [4.0, 9.0]]), torch.tensor([7, 7]), torch.tensor([2, 1])
    )
    assert torch.equal(found, torch.tensor([[-3.0, 0.0], [1.0, 0.0]]))


def test_a_single_sample_has_nothing_to_be_compared_with():
    found = process_leave_one_out(torch.tensor([1.0]), torch.ones(1, 2), torch.tensor([7]), torch.tensor([2]))
    assert not found.any()


def test_the_process_reward_is_beta_times_the_log_ratio():
    found = implicit_process_reward(torch.tensor([[-1.0, 0.0]]), torch.tensor([[-3.0, 0.0]]), beta=0.5)
    assert torch.equal(found.process_reward, torch.tensor([[1.0, 0.0]]))


def test_the_reward_model_learns_from_the_outcome_of_the_whole_row():
    # beta (sum of log ratios on the mask) = 0.5 (1 + 1) = 1: -log sigmoid(1) if the answer is right, 1 more if wrong.
    logprob = torch.tensor([[-1.0, -1.0, -1.0]] * 2, requires_grad=True)
    mask = torch.tensor([[True, True, False]] * 2)
    out = outcome_cross_entropy(logprob, torch.full((2, 3), -2.0), torch.tensor([1.0, 0.0]), mask, beta=0.5)
    low = math.log1p(math.exp(-1))
    assert out.loss.tolist() == pytest.approx([low, low + 1])
    assert out.metrics["accuracy"].tolist() == [1.0, 0.0]
    out.loss.sum().backward()
    # d loss / d logprob = beta (sigmoid(1) - score), on the mask alone.
    assert logprob.grad[0].tolist() == pytest.approx([0.5 * (1 / (1 + math.exp(-1)) - 1)] * 2 + [0.0])


def test_it_loads_a_reward_model_of_its_own_and_trains_it_after_it_was_used():
    plan = prime().graph().resolve()
    assert plan.roles == ("reference", "reward_model", "sampler", "trainer")
    names = [n.name for n in plan.learning_stage]
    assert names.index("process_reward") < names.index("reward_model_update")
    update: Node = next(n for n in plan.nodes if n.name == "reward_model_update")
    assert "score" in plan.available_reads(update)
