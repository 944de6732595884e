"""Services are held against their protocol, and what they return is checked where it enters."""

import math
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
from rlcore.sample.shared_weights import SharedWeights
from rlcore.services import (
    check_class,
    generate_completions,
    grade_samples,
    kind_protocol,
    next_rows,
    protocol_members,
    start,
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


def test_u57_a_sampler_class_without_generate_is_refused_before_anything_loads():
    with pytest.raises(ConfigError, match="sampler Mute is not a Sampler: it lacks generate"):
        check_class("sampler", Mute)
    with pytest.raises(ConfigError, match="sampler Mute is not a Sampler: it lacks generate"):
        check_class("sampler", bind(Mute))


def test_a_function_is_judged_by_its_annotation_and_else_by_what_it_returns():
    def annotated(model) -> Mute:
        return Mute(model)

    def silent(model):
        return Mute(model)

    with pytest.raises(ConfigError, match="sampler annotated is not a Sampler: it lacks generate"):
        check_class("sampler", annotated)
    check_class("sampler", silent)
    with pytest.raises(
        ConfigError,
        match="silent returned Mute, which is not a Sampler: it lacks reports_kept_logmass, version and generate",
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
    ("completions", "said"),
    [
        ([], "returned 0 completions for 1 requests"),
        (["text"], "returned str for request 0; expected Completion"),
        ([Completion([1, 2], [0.0], [0.0, 0.0], Stop.LENGTH, 0)], "2 tokens and 1 log-probabilities for request 0"),
    ],
)
def test_what_is_no_completion_is_named(completions, said):
    sampler = SimpleNamespace(generate=lambda requests: completions)
    with pytest.raises(RunError, match=said):
        generate_completions(sampler, [Request((1,), SamplingParams(), 0)])


@pytest.mark.parametrize(
    ("indices", "said"), [([0], "1 indices; 2 were"), ([0, 5], "5; expected an index from 0 to 2"), ([0, 0.5], "0.5")]
)
def test_what_is_no_row_is_named(indices, said):
    with pytest.raises(DataError, match=said):
        next_rows(SimpleNamespace(next=lambda count: indices), 2, 3)


def test_the_shared_transfer_proves_that_both_hold_the_same_weights():
    one, other = (SimpleNamespace(module=nn.Linear(2, 2), vocab_size=3) for _ in range(2))
    trainer = FakeTrainer(SimpleNamespace(frozen=False), one)
    trainer.version = 4
    assert SharedWeights().sync(trainer, FakeSampler(one, version=lambda: trainer.version)) == 4
    with pytest.raises(ModelError, match="does not draw from the trainer's weights: 2 of 2 are others"):
        SharedWeights().sync(trainer, FakeSampler(other))
    with pytest.raises(ModelError, match="the sampler Mute has no weights()"):
        SharedWeights().sync(trainer, Mute(one))
