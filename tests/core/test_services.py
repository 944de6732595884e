"""Services are held against their protocol, and what they return is checked where it enters."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from rlcore.component import bind
from rlcore.data import ObservesScores
from rlcore.errors import ConfigError, DataError, ModelError, RewardError, RunError
from rlcore.kinds import KINDS
from rlcore.protocols import Completion, Graded, Request, RewardManager, Sample, SamplingParams, Stop, Tracker
from rlcore.registry import names, registry
from rlcore.sample.weight_transfer import DirectTransfer
from rlcore.services import (
    check_class,
    check_completion,
    digest,
    grade_samples,
    kind_protocol,
    next_rows,
    protocol_members,
    start,
    sync_weights,
)
from rlcore.testing import FakeSampler, FakeTrainer
from rlcore_envs.orders import BySuccess, Sequential

SERVICES = [name for name, kind in KINDS.items() if kind.form == "service"]
SAMPLES = [Sample("p", "c", None, {})] * 2


class Mute:
    """A sampler that cannot sample."""

    def __init__(self, model):
        self.model = model


class Listed(RewardManager):
    """A manager that gives what it is told."""

    def __init__(self, grades):
        self.grades = grades

    def score(self, samples):
        return self.grades


@pytest.mark.parametrize("kind", SERVICES)
def test_every_service_has_a_protocol_and_every_built_in_one_keeps_it(kind):
    assert protocol_members(kind_protocol(kind))
    for name in names(kind):
        check_class(kind, registry().get(kind, name))


def test_u57_a_sampler_class_without_sample_is_refused_before_anything_loads():
    with pytest.raises(ConfigError, match="sampler Mute is not a Sampler: it lacks sample and update_weights"):
        check_class("sampler", Mute)
    with pytest.raises(ConfigError, match="sampler Mute is not a Sampler: it lacks sample and update_weights"):
        check_class("sampler", bind(Mute))


def test_a_function_is_judged_by_its_annotation_and_else_by_what_it_returns():
    def annotated(model) -> Mute:
        return Mute(model)

    def silent(model):
        return Mute(model)

    with pytest.raises(ConfigError, match="sampler annotated is not a Sampler: it lacks sample and update_weights"):
        check_class("sampler", annotated)
    check_class("sampler", silent)
    with pytest.raises(
        ConfigError,
        match="silent returned Mute, which is not a Sampler: it lacks sample and update_weights; rlcore.protocols.S",
    ):
        start("sampler", silent, None)


def test_a_class_that_has_the_protocol_as_its_base_writes_only_what_it_must():
    manager = start("reward_manager", Listed, [])
    assert (manager.component_names, manager.failed, manager.checks_rows) == ((), 0, False)
    manager.check({"prompt"})
    manager.close()

    class Unwritten(Tracker):
        pass

    with pytest.raises(ConfigError, match="tracker Unwritten is not a Tracker: it lacks log"):
        check_class("tracker", Unwritten)


def test_a_service_gets_by_name_what_it_asks_for():
    order = start("order", Sequential, offered={"size": 3, "seed": 1, "rows": []})
    assert order.next(2) == [0, 1]
    assert not isinstance(order, ObservesScores)
    assert issubclass(BySuccess, ObservesScores)


def test_u27_plain_numbers_are_taken_as_scores():
    """They were an AttributeError."""
    first, second = grade_samples(Listed([0.5, None]), SAMPLES)
    assert first == Graded(0.5)
    assert math.isnan(second.score)
    assert grade_samples(Listed(torch.tensor([1.0, 0.0])), SAMPLES)[0] == Graded(1.0)


@pytest.mark.parametrize(
    ("grades", "said"),
    [
        ([0.5], "Listed returned 1 grade for 2 samples"),
        ([0.5, "good"], "Listed returned str for sample 1; expected Graded"),
        (0.5, "Listed returned float; score returns a list"),
        ({"score": 1.0}, "Listed returned dict; score returns a list"),
    ],
)
def test_what_is_no_grade_is_named(grades, said):
    with pytest.raises(RewardError, match=said):
        grade_samples(Listed(grades), SAMPLES)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (None, "sample returned NoneType; expected Completion"),
        ({"logprob": [0.0]}, "drew 2 tokens and gave 1 values for 'logprob'"),
        ({"tokens": [1, 9]}, "tokens holds the id 9; the model's vocabulary is 0 to 8"),
        ({"tokens": [1, -2]}, "tokens holds -2; expected ids"),
        ({"tokens": [1, 0.5]}, "tokens holds 0.5; expected ids"),
        (
            {"tokens": [1, 2, 3], "logprob": [0.0] * 3, "kept_logmass": [0.0] * 3, "versions": [0] * 3},
            "2 were asked for",
        ),
        ({"stop": 9}, "stop is 9; expected a member of Stop: FINISHED, LENGTH"),
        ({"logprob": [0.0, math.nan]}, "logprob holds nan; expected a finite logarithm"),
        ({"logprob": [0.5, 0.0]}, "logprob holds 0.5; expected a finite logarithm"),
        ({"kept_logmass": [-math.inf, 0.0]}, "kept_logmass holds -inf"),
        ({"tokens": [1, 2**64]}, "tokens holds 18446744073709551616; expected ids"),
        ({"tokens": [True, 2]}, "tokens holds True; expected ids"),
        ({"logprob": ["a", 0.0]}, "logprob holds what is no number"),
        ({"versions": [None, 3]}, "versions holds None; expected the whole number"),
        ({"versions": [math.nan, 3]}, "versions holds nan; expected the whole number"),
        ({"stop": Stop.ENVIRONMENT_ERROR}, "which an environment gives"),
        ({"versions": [0, 4]}, "versions holds 4; the sampler was last given the weights of version 3"),
    ],
)
def test_u26_what_is_no_completion_is_named_with_sampler_request_and_field(change, said):
    """They were raw tracebacks, or were trained on."""
    right = Completion([1, 2], [0.0, -1.0], [0.0, 0.0], Stop.LENGTH, [3, 3])
    request = Request((1,), SamplingParams(max_new_tokens=2), 0, group=5)
    sampler = SimpleNamespace(version=3)
    check_completion(sampler, request, right, vocab_size=9)
    wrong = None if change is None else replace(right, **change)
    with pytest.raises(RunError, match=f"sampler SimpleNamespace, request of group 5: .*{said}"):
        check_completion(sampler, request, wrong, vocab_size=9)


@pytest.mark.parametrize(
    ("indices", "said"), [([0], "1 indices; 2 were"), ([0, 5], "5; expected an index from 0 to 2"), ([0, 0.5], "0.5")]
)
def test_what_is_no_row_is_named(indices, said):
    with pytest.raises(DataError, match=said):
        next_rows(SimpleNamespace(next=lambda count: indices), 2, 3)


def test_a_sync_of_shared_weights_needs_no_more_proof_and_one_of_others_is_counted():
    one, other = (SimpleNamespace(module=nn.Linear(2, 2), vocab_size=3) for _ in range(2))
    trainer = FakeTrainer(SimpleNamespace(frozen=False), one)
    trainer.version = 4
    assert sync_weights(DirectTransfer(), trainer, FakeSampler(one)) == 4
    with pytest.raises(ModelError, match=r"it received 0 tensors of 2; not received: weight, bias"):
        sync_weights(DirectTransfer(), trainer, FakeSampler(other))


def test_a_digest_tells_shape_type_and_bytes():
    ones = torch.ones(4)
    told = {digest(t) for t in (ones, ones.view(2, 2), ones.bfloat16(), torch.tensor([1.0, 1.0, 1.0, -1.0]))}
    assert len(told) == 4
    assert digest(ones.view(2, 2).t()) == digest(ones.view(2, 2).clone())
