"""The Python surface: a name that goes or changes its place breaks somebody's notebook, so each is written down."""

import importlib
import inspect
import pickle

import pytest

import rlcore
from rlcore import errors

SURFACE = {
    "Algorithm",
    "Batch",
    "Graph",
    "Node",
    "Run",
    "bind",
    "get",
    "hookimpl",
    "names",
    # the protocols
    "Environment",
    "RewardManager",
    "Sampler",
    "Tracker",
    "Trainer",
    "WeightTransfer",
    # the errors
    "CheckpointError",
    "ComponentError",
    "ConfigError",
    "DataError",
    "GraphError",
    "ModelError",
    "RLCoreError",
    "RegistryError",
    "RewardError",
    "RunError",
    "UnknownNameError",
}

BUILTINS = {
    "CheckpointError": RuntimeError,
    "ComponentError": TypeError,
    "ConfigError": ValueError,
    "DataError": ValueError,
    "GraphError": ValueError,
    "ModelError": ValueError,
    "RegistryError": ValueError,
    "RewardError": RuntimeError,
    "RunError": RuntimeError,
    "UnknownNameError": LookupError,
}

PLACES = {
    "rlcore.checkpoint": ("checkpoint_step", "fault", "load", "newest", "save"),
    "rlcore.metrics": ("Metric", "Metrics", "is_measured"),
    "rlcore.devices": ("choose_device",),
    "rlcore.seeding": ("generator", "numpy_generator", "seeded", "stream"),
    "rlcore.tracking": ("Console", "JsonLines", "Jsonl", "SwanLab", "TensorBoard", "Trackers", "WandB"),
}


def test_the_surface_is_what_it_was():
    assert set(rlcore.__all__) - {"__version__"} >= SURFACE
    assert [name for name in sorted(SURFACE) if not hasattr(rlcore, name)] == []


@pytest.mark.parametrize("module", PLACES)
def test_parts_stand_where_they_stood(module):
    assert [name for name in PLACES[module] if not hasattr(importlib.import_module(module), name)] == []


def test_everything_public_has_a_docstring():
    public = {name: getattr(rlcore, name) for name in SURFACE}
    assert [name for name, thing in public.items() if not inspect.getdoc(thing)] == []


def test_every_error_is_ours_and_the_builtin_that_it_refines():
    ours = {
        name: thing for name, thing in vars(errors).items() if inspect.isclass(thing) and issubclass(thing, Exception)
    }
    assert ours.keys() == {"RLCoreError", *BUILTINS}
    for name, builtin in BUILTINS.items():
        assert issubclass(ours[name], builtin)
        assert issubclass(ours[name], errors.RLCoreError)


@pytest.mark.parametrize("name", BUILTINS)
def test_an_error_crosses_processes(name):
    again = pickle.loads(pickle.dumps(getattr(errors, name)("what was asked")))
    assert (type(again).__name__, str(again)) == (name, "what was asked")
