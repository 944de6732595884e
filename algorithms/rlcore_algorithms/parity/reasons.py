"""Intended differences from a peer, each a named predicate; docs/parity.md has both formulas."""

from __future__ import annotations

from rlcore_algorithms.parity.compare import ComparedCase, Reason, is_finite, tensor


def _peer_raises(compared: ComparedCase) -> bool:
    """Return whether the peer refuses the input and we answer with finite numbers."""
    if not compared.case.get("raises") or compared.ours is None:
        return False
    values = [tensor(value.tolist() if hasattr(value, "tolist") else value) for value in compared.ours.out.values()]
    return all(is_finite(value) for value in values)


def _peer_not_finite(compared: ComparedCase) -> bool:
    """Return whether the peer's number is not finite, ours is, and all that is finite in the peer's answer agrees.

    Where the loss itself is not finite its gradient says nothing either.
    """
    if compared.ours is None or compared.missing or compared.case.get("raises"):
        return False
    lost = "loss" in compared.theirs and not is_finite(compared.theirs["loss"])
    for difference in compared.differences:
        if not is_finite(difference.ours):
            return False
        if is_finite(difference.theirs) and not (lost and difference.key == "grad"):
            return False
    return bool(compared.differences)


REASONS = (
    Reason("peer_raises", "the peer refuses the input; here it has a finite answer", _peer_raises),
    Reason("peer_not_finite", "the peer answers NaN or infinity; here it is finite", _peer_not_finite),
)
