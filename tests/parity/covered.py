"""Which components a test compares with a plain version of its own: what is registered must be among them."""

from collections.abc import Callable, Iterable
from typing import Any

from rlcore.component import source_of

COVERED: set[Any] = set()


def covers(*components: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Mark a test as the comparison of these components, whatever options are bound to them."""
    COVERED.update(source_of(component) for component in components)
    return lambda test: test


def uncovered(things: Iterable[tuple[str, Any]]) -> list[str]:
    """Return the names of components that no test compares."""
    return sorted(name for name, thing in things if source_of(thing) not in COVERED)
