"""Laws of components of every kind: a named source, copies that behave the same, options that can be bound."""

from __future__ import annotations

import inspect
import pickle

import cloudpickle

from rlcore.component import bind, name_of, options, reads, source_of
from rlcore.errors import ConfigError
from rlcore.testing.laws.inputs import Component


def names_its_source(component: Component) -> None:
    """The docstring of the component or of its module names a source."""
    source = source_of(component)
    text = f"{inspect.getdoc(source) or ''}\n{inspect.getdoc(inspect.getmodule(source)) or ''}".lower()
    assert any(mark in text for mark in ("arxiv", "doi", "source", "joschu")), (
        f"{name_of(component)} names no source: add a line to its docstring, such as `Source: Williams 1992.`; of an "
        f"idea of your own say so: `Source: own.`"
    )


def survives_copying(component: Component) -> None:
    """A pickled copy, by reference and by value, keeps the component's name and the columns that it reads."""
    for copy in (pickle.loads(pickle.dumps(component)), cloudpickle.loads(cloudpickle.dumps(component))):  # noqa: S301 our own bytes
        assert name_of(copy) == name_of(component)
        assert reads(copy) == reads(component)


def options_bind(component: Component) -> None:
    """Every option can be bound to the value it has, and an option that there is not is refused."""
    defaults = {name: option.default for name, option in options(component).items()}
    bound = bind(component, **defaults) if defaults else component
    assert {name: option.default for name, option in options(bound).items()} == defaults, "binding changed an option"
    try:
        bind(component, no_such_option=1)
    except ConfigError:
        return
    raise AssertionError("an option that there is not was bound")
