"""What `train` would refuse of a service, `check` refuses before a model loads."""

import sys

import pytest

from rlcore.errors import ConfigError, ModelError
from rlcore.protocols import RewardManager
from rlcore.testing import FakeSampler
from tests.run import small


class Mute:
    """A sampler that cannot sample."""

    def __init__(self, model):
        self.model = model


class Floats(RewardManager):
    """A manager that gives plain numbers."""

    def __init__(self, reward):
        self.reward = reward

    def score(self, samples):
        return [float(len(sample.completion) % 2) for sample in samples]


class Apart(FakeSampler):
    """A sampler that says nothing of its weights."""

    weights = None


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small.save_model(tmp_path_factory.mktemp("model") / "tiny")


def test_u57_check_refuses_a_sampler_class_without_generate(tmp_path):
    """`rlcore check` said ok, and the run failed after it had loaded the model."""
    with pytest.raises(ConfigError, match="sampler Mute is not a Sampler: it lacks generate"):
        small.make("nowhere", tmp_path, sampler=Mute)


def test_u57_check_refuses_a_tracker_whose_package_is_missing(model, tmp_path, monkeypatch):
    """`rlcore check` said ok, and the tracker warned once the run had begun."""
    monkeypatch.setitem(sys.modules, "wandb", None)
    run = small.make(model, tmp_path, tracker=("wandb",))
    with pytest.raises(ConfigError, match=r'tracker .wandb. needs the package wandb.*pip install "rlcore\[trackers\]"'):
        run.check()


def test_u27_a_manager_that_gives_numbers_works_in_a_run(model, tmp_path):
    """Its floats were an AttributeError in the first step."""
    run = small.make(model, tmp_path, reward_manager=Floats, steps=1).train()
    assert 0 <= run.history[0]["score"] <= 1


def test_a_sampler_that_does_not_show_its_weights_is_refused_before_the_first_step(model, tmp_path):
    run = small.make(model, tmp_path, sampler=Apart, name="apart")
    with pytest.raises(ModelError, match="weight_transfer=shared: the sampler Apart has no weights"):
        run.train()
    assert not (tmp_path / "apart" / "metrics.jsonl").exists()
