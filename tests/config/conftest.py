import types

import pytest

from rlcore import hookimpl
from rlcore.config import load
from rlcore.registry import Plugin, Registry, registry

BASE = ("model=a/folder", "data=svamp", "data.path=svamp.json", "reward=numeric_answer")


@pytest.fixture
def experiment():
    """A whole experiment with some overrides."""
    return lambda *overrides, **options: load([*BASE, *overrides], **options)


@pytest.fixture
def install(monkeypatch):
    """Registers parts as another distribution's plugin would, for one test."""
    known = Registry.from_entry_points()

    def add(distribution, parts, *, fails=None):
        plugin = types.ModuleType(f"plugin_of_{distribution}")

        def register(add):
            for (kind, name), thing in parts.items():
                getattr(add, kind)(name, thing)

        plugin.register = hookimpl(register)

        def loader():
            if fails is not None:
                raise fails
            return plugin

        known.load(Plugin(distribution, "x", distribution, "1.0"), loader)

    monkeypatch.setattr(Registry, "from_entry_points", classmethod(lambda cls: known))
    registry.cache_clear()
    yield add
    registry.cache_clear()
