"""What the shelf registers has a plain version beside it: a new component without one fails here by registration."""

import importlib
from pathlib import Path

import pytest

from rlcore.component import bind
from rlcore.registry import registry
from tests.parity.covered import uncovered

KINDS = (
    *("advantage", "loss", "reduction", "kl", "select", "correction"),
    *("filter", "shaping", "controller", "readout"),
)


@pytest.fixture(scope="module", autouse=True)
def _marks():
    """Every test of this folder has marked what it compares."""
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        if file.stem != Path(__file__).stem:
            importlib.import_module(f"tests.parity.{file.stem}")


@pytest.mark.parametrize("kind", KINDS)
def test_every_registered_component_has_an_independent_version(kind):
    entries = [entry for entry in registry().entries(kind) if entry.distribution == "rlcore"]
    assert entries
    things = [(f"{kind} {entry.name}", registry().get(kind, entry.name)) for entry in entries]
    assert uncovered(things) == [], "compare these with a plain version in tests/parity, marked by `covers`"


def test_one_without_a_version_is_named():
    def fresh(logprob, *, scale: float = 1.0):
        return logprob * scale

    known = registry().get("loss", "clipped")
    assert uncovered([("loss fresh", bind(fresh, scale=2.0)), ("loss clipped", known)]) == ["loss fresh"]
