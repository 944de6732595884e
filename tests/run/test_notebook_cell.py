"""An estimator and a loss with options, written in a notebook cell: run as they stand, without being registered."""

import sys
import types
from dataclasses import replace

import cloudpickle
import pytest
import torch

from rlcore import bind
from rlcore.component import dumps, identity, options
from rlcore.errors import ConfigError
from rlcore_algorithms import grpo
from tests.run import small

CELL = '''
from rlcore.math import group_max, group_mean

def towards_the_best(reward, group, *, share: float = 0.5):
    """Advantage [B]: reward minus a baseline between the group's mean and its best."""
    return reward - (1 - share) * group_mean(reward, group) - share * group_max(reward, group)

def held_back(logprob, old_logprob, advantage, mask, *, pull: float = 0.1, power: int = 2):
    """Loss [B, T]: a policy gradient with a pull to the old policy."""
    return (-advantage * logprob + pull * (logprob - old_logprob + 0.1).abs() ** power) * mask
'''


@pytest.fixture
def cell(monkeypatch):
    """The names of a cell, in a `__main__` without a file, as a notebook's kernel has it."""
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    exec(compile(CELL, "<cell 1>", "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small.save_model(tmp_path_factory.mktemp("model") / "tiny")


def trained(cell, model, tmp_path, name, **pulled):
    parts = {"advantage": bind(cell.towards_the_best, share=0.25), "loss": bind(cell.held_back, **pulled)}
    algorithm = replace(grpo(group_size=4), **parts)
    return small.make(model, tmp_path, algorithm=algorithm, name=name, steps=2).train()


def test_it_is_run_as_it_stands_and_its_options_count(cell, model, tmp_path):
    one, other = (trained(cell, model, tmp_path, f"pull_{pull}", pull=pull) for pull in (0.0, 50.0))
    assert len(one.history) == 2
    assert one.history[0]["update/loss"] != other.history[0]["update/loss"]
    again = trained(cell, model, tmp_path, "again", pull=0.0)
    assert small.metrics(one.folder) == small.metrics(again.folder)


def test_the_run_writes_down_what_ran(cell, model, tmp_path):
    run = trained(cell, model, tmp_path, "written", pull=0.3, power=4)
    config = (run.folder / "config.yaml").read_text()
    for said in ("towards_the_best", "share: 0.25", "held_back", "pull: 0.3", "power: 4"):
        assert said in config
    assert identity(cell.held_back).sha256 in (run.folder / "versions.json").read_text()


def test_an_option_is_checked_as_that_of_a_registered_part(cell):
    with pytest.raises(ConfigError, match="has no option 'shar'.*Did you mean 'share'"):
        bind(cell.towards_the_best, shar=0.1)
    with pytest.raises(ConfigError, match="power=2.5"):
        bind(cell.held_back, power=2.5)


def test_it_travels_by_value(cell, monkeypatch):
    sent = dumps(bind(cell.towards_the_best, share=0.25))
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    arrived = cloudpickle.loads(sent)
    assert options(arrived)["share"].default == 0.25
    reward, group = torch.tensor([1.0, 0.0]), torch.tensor([7, 7])
    assert arrived(reward, group).tolist() == pytest.approx([0.375, -0.625])
