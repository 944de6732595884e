"""A pytest plugin: `pytest -p rlcore.testing.plugin --rlcore-conform=DISTRIBUTION` checks all that it registered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rlcore.kinds import KINDS
from rlcore.registry import Entry, registry, resolve
from rlcore.testing.kit import Check, declared_checks, declared_failures, hold

_ALONE = tuple(
    name
    for name, kind in KINDS.items()
    if kind.form == "component" or name in ("algorithm", "optimizer", "schedule", "weight_transfer", "experiment")
)
"""Kinds that can be asked by registration alone; others need a model, a reward, data or a network to begin with."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--rlcore-conform", metavar="DISTRIBUTION", help="check everything that a distribution registered")


def registered_entries(distribution: str) -> Iterator[Entry]:
    """Yield what a distribution registered of the kinds that can be asked by registration alone."""
    for kind in _ALONE:
        yield from (entry for entry in registry().entries(kind) if entry.distribution == distribution)


class Conformance(pytest.Item):
    """One check of one registered thing."""

    def __init__(self, *, entry: Entry, check: str, run: Check, **given: Any) -> None:
        super().__init__(**given)
        self.entry, self.check, self.run = entry, check, run

    def runtest(self) -> None:
        """Run the check."""
        hold(self.check, self.run, declared_failures(self.entry))

    def repr_failure(self, excinfo: Any, style: Any = None) -> str:
        """Return what is wrong, without the kit's own frames."""
        return (
            str(excinfo.value)
            if isinstance(excinfo.value, AssertionError)
            else str(super().repr_failure(excinfo, style))
        )

    def reportinfo(self) -> tuple[str, None, str]:
        """Return where it comes from."""
        return (self.entry.distribution, None, self.name)


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the checks of the distribution that was asked for."""
    distribution = config.getoption("--rlcore-conform")
    if not distribution:
        return
    for entry in registered_entries(distribution):
        imported = isinstance(entry.thing, str) and KINDS[entry.kind].form != "file"
        thing = resolve(entry.thing) if imported else entry.thing
        for name, run in declared_checks(entry.kind, thing, declared_failures(entry)).items():
            label = f"{entry.kind}-{entry.name}-{name}"
            items.append(Conformance.from_parent(session, name=label, entry=entry, check=name, run=run))
