import pytest
import torch

from rlcore.devices import choose_device
from rlcore.errors import ConfigError


@pytest.fixture
def machine(monkeypatch):
    """A machine with some devices, whatever this one has."""

    def has(*, cuda=0, mps=False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return has


@pytest.mark.parametrize(
    ("devices", "expected"), [({"cuda": 2, "mps": True}, "cuda"), ({"mps": True}, "mps"), ({}, "cpu")]
)
def test_auto_takes_the_fastest_there_is(machine, devices, expected):
    machine(**devices)
    assert choose_device("auto") == torch.device(expected)


def test_one_of_several_can_be_picked(machine):
    machine(cuda=2)
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(ConfigError, match="CUDA devices are 0 to 1"):
        choose_device("cuda:2")


@pytest.mark.parametrize("name", ["cuda", "mps", "cuda:0"])
def test_a_device_that_is_not_there_is_named_with_those_that_are(machine, name):
    machine()
    with pytest.raises(ConfigError, match=f"'{name}' is not on this machine, which has cpu"):
        choose_device(name)


@pytest.mark.parametrize("name", ["cude", "gpu", "cuda:", "cuda:x", ""])
def test_a_name_that_is_no_device_is_refused_with_those_that_are(name):
    with pytest.raises(ConfigError, match="is none of auto, cuda, mps, cpu"):
        choose_device(name)


def test_a_misspelt_device_is_recognised():
    with pytest.raises(ConfigError, match="Did you mean 'cuda'"):
        choose_device("cude")
