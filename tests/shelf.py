"""What rlcore itself registers, for tests that ask all of a kind."""

from rlcore.registry import registry


def shelf(kind):
    """The things of a kind that rlcore registers, by name."""
    known = registry()
    return {e.name: known.get(kind, f"rlcore:{e.name}") for e in known.entries(kind) if e.distribution == "rlcore"}
