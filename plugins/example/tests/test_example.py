import math
from types import SimpleNamespace

import torch
from rlcore_example import Clamped, Uniform, above_average, brief, imitate_the_better

import rlcore
from rlcore.protocols import Request, RewardManager, Sample, Sampler, SamplingParams, Stop
from rlcore.services import generate_completions

NAMES = {
    "advantage": "above_average",
    "loss": "imitate_the_better",
    "reward": "brief",
    "reward_manager": "clamped",
    "sampler": "uniform",
}


def test_one_entry_point_offers_all_five():
    for kind, name in NAMES.items():
        assert name in rlcore.names(kind)
        assert rlcore.get(kind, name).__module__ == "rlcore_example"


def test_above_average_compares_within_a_prompt():
    reward, group = torch.tensor([1.0, 5.0, 0.0, 5.0, 0.0]), torch.tensor([7, 2, 7, 2, 7])
    assert above_average(reward, group, scale=2.0).tolist() == [2.0, 0.0, -2.0, 0.0, -2.0]


def test_imitation_has_no_gradient_where_the_advantage_is_negative():
    logprob = torch.tensor([[-1.0, -2.0, -3.0]], requires_grad=True)
    loss = imitate_the_better(logprob, torch.tensor([[0.5, -1.0, 2.0]]), torch.tensor([[True, True, False]]))
    assert loss.tolist() == [[0.5, 0.0, 0.0]]
    loss.sum().backward()
    assert logprob.grad.tolist() == [[-0.5, 0.0, 0.0]]


def test_brevity_is_linear():
    assert [brief(text, characters=4) for text in ("", "ab", "abcd", "abcdef")] == [1.0, 0.5, 0.0, 0.0]


def number(completion):
    return float(completion)


def test_scores_are_clamped_and_a_failure_stays_with_its_row():
    samples = [Sample("2+2=", text, None, {}) for text in ("3", "x", "-9")]
    manager = Clamped(number)
    assert isinstance(manager, RewardManager)
    high, failed, low = manager.score(samples)
    manager.close()
    assert (high.score, low.score) == (1.0, -1.0)
    assert math.isnan(failed.score)
    assert "could not convert" in failed.error


def test_a_completion_depends_on_its_own_seed_alone():
    requests = [Request((1, 2), SamplingParams(max_new_tokens=6), seed) for seed in (3, 4, 3)]
    sampler = Uniform(SimpleNamespace(vocab_size=5))
    assert isinstance(sampler, Sampler)
    first, second, third = generate_completions(sampler, requests)
    assert first == third == generate_completions(sampler, requests[::-1])[0]
    assert first.tokens != second.tokens
    assert set(first.tokens) <= set(range(5))
    assert first.logprob == [-math.log(5)] * 6
    assert first.stop == Stop.LENGTH
