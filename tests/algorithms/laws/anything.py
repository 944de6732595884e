"""Laws of every component, whatever its kind."""

from __future__ import annotations

import inspect
import pickle

import cloudpickle

from rlcore.component import name_of, reads, source_of
from tests.algorithms.laws.inputs import Component


def names_its_source(component: Component) -> None:
    """The docstring says where the formula is from and what differs."""
    source = source_of(component)
    text = f"{inspect.getdoc(source) or ''}\n{inspect.getdoc(inspect.getmodule(source)) or ''}".lower()
    assert any(mark in text for mark in ("arxiv", "doi", "source", "joschu")), f"{name_of(component)} names no source"


def survives_copying(component: Component) -> None:
    """A pickled copy, by reference and by value, is the same component."""
    for copy in (pickle.loads(pickle.dumps(component)), cloudpickle.loads(cloudpickle.dumps(component))):
        assert name_of(copy) == name_of(component)
        assert reads(copy) == reads(component)
