"""What `train` would refuse of a service, `check` refuses before a model loads."""

import copy
import sys

import pytest

from rlcore.errors import ConfigError, ModelError
from rlcore.protocols import RewardManager, Sampler
from rlcore.sample.embedded import EmbeddedSampler
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


class Deaf:
    """A sampler that was written before weights were handed over."""

    reports_kept_logmass, version = True, 0

    def __init__(self, model):
        self.model = model

    async def sample(self, request):
        raise AssertionError("nothing is drawn")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small.save_model(tmp_path_factory.mktemp("model") / "tiny")


def test_u57_check_refuses_a_sampler_class_without_sample(tmp_path):
    """`rlcore check` said ok, and the run failed after it had loaded the model."""
    with pytest.raises(ConfigError, match="sampler Mute is not a Sampler: it lacks sample and update_weights"):
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


def test_u25_a_sampler_that_receives_no_weights_is_refused_before_the_first_step(model, tmp_path):
    """It trained, and was graded, on the copy that it made at its start."""
    with pytest.raises(ConfigError, match="sampler Deaf is not a Sampler: it lacks update_weights"):
        small.make(model, tmp_path, sampler=Deaf)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("does nothing", r"it received 0 tensors of \d+; not received: "),
        ("reads nothing", r"it received 0 tensors of \d+; not received: "),
        ("keeps its version", "it holds version 0, sync returned 0, and the trainer is at version 1"),
        ("skips a tensor", r"1 of its \d+ tensors have other values: .*q_proj.weight"),
        ("swaps two", r"2 of its \d+ tensors have other values: .*k_proj.weight, .*v_proj.weight"),
        ("keeps those of before", r"\d+ of its \d+ tensors have other values"),
    ],
)
def test_u25_a_sampler_that_does_not_hold_what_it_was_sent_stops_the_run(model, tmp_path, fault, said):
    run = small.make(model, tmp_path, sampler=copying(fault), name="run")
    with pytest.raises(ModelError, match=rf"sampler Copying does not hold the trainer's weights .*: {said}"):
        run.train()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("skips", "were not given, the first "),
        ("swaps", "altered: "),
        ("twice", "sent twice: "),
        ("none", "never called"),
    ],
)
def test_u25_a_transfer_that_loses_a_tensor_stops_the_run(model, tmp_path, fault, said):
    run = small.make(model, tmp_path, sampler=copying("", shows=False), weight_transfer=transfer(fault), name="run")
    with pytest.raises(ModelError, match=said):
        run.train()


def test_a_sampler_with_weights_of_its_own_samples_what_the_trainer_would(model, tmp_path):
    shared = small.make(model, tmp_path, name="shared").train()
    apart = small.make(model, tmp_path, sampler=copying(""), name="apart").train()
    assert [row["score"] for row in apart.history] == [row["score"] for row in shared.history]
    assert [row["update/loss"] for row in apart.history] == [row["update/loss"] for row in shared.history]


def copying(fault, *, shows=True):
    """Return a factory of a sampler with a copy of the model, which has a fault once the first update was made."""

    class Copying(Sampler):
        reports_kept_logmass = True

        def __init__(self, model):
            self.model = copy.deepcopy(model)
            self.inner = EmbeddedSampler(self.model)
            if shows:
                self.weights = self.inner.weights

        async def sample(self, request):
            return await self.inner.sample(request)

        async def pause(self):
            await self.inner.pause()

        async def resume(self):
            await self.inner.resume()

        def update_weights(self, weights, version):
            if not fault or not version:
                self.inner.update_weights(weights, version)
            elif fault == "does nothing":
                return
            elif fault == "keeps its version":
                self.inner.update_weights(weights, self.version)
            elif fault != "reads nothing":
                given = dict(weights)
                k, v, q = (next(n for n in given if f"{x}_proj.weight" in n) for x in "kvq")
                if fault == "skips a tensor":
                    given[q] = self.inner.weights()[q]
                elif fault == "swaps two":
                    given[k], given[v] = given[v], given[k]
                else:
                    given = self.inner.weights()
                self.inner.update_weights(given.items(), version)
            self.version = self.version if fault == "keeps its version" else version

    return Copying


def transfer(fault):
    """Return a weight transfer that loses something."""

    class Losing:
        def sync(self, source, target):
            sent = list(source.weights().items())
            if fault == "skips":
                del sent[1]
            elif fault == "swaps":
                a, b = (next(i for i, (n, _) in enumerate(sent) if f"{x}_proj.weight" in n) for x in "kv")
                sent[a], sent[b] = (sent[a][0], sent[b][1]), (sent[b][0], sent[a][1])
            elif fault == "twice":
                sent.append(sent[0])
            if fault != "none":
                target.update_weights(iter(sent), source.version)
            return source.version

    return Losing
