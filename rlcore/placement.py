"""Where roles live: devices, and the pools that hold them.

Roles of one pool take turns (hybrid: the occupant sleeps, the next wakes); those of two pools overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from rlcore.errors import ConfigError, nearest

DEVICES = ("auto", "cuda", "mps", "cpu")


def device_of(name: str = "auto") -> torch.device:
    """Return the device of a name: `auto` is CUDA if there is one, else MPS, else the CPU; `cuda:1` picks one.

    Raises:
        ConfigError: for a name that is no device, or a device that this machine lacks.
    """
    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, there in found.items() if there))
    kind, _, index = name.partition(":")
    if kind not in found or (index and not index.isdecimal()) or name.endswith(":"):
        raise ConfigError(f"device {name!r} is none of {', '.join(DEVICES)}, cuda:N.{nearest(kind, DEVICES)}")
    if not found[kind]:
        there = ", ".join(kind for kind, is_there in found.items() if is_there)
        raise ConfigError(f"device {name!r} is not on this machine, which has {there}")
    if kind == "cuda" and index and int(index) >= torch.cuda.device_count():
        raise ConfigError(
            f"device {name!r} is not on this machine, whose CUDA devices are 0 to {torch.cuda.device_count() - 1}"
        )
    return torch.device(name)


@dataclass(frozen=True)
class Pool:
    """Devices that are handed out together: on one machine a tuple of one device."""

    name: str
    devices: tuple[str, ...]


@runtime_checkable
class Placement(Protocol):
    """Says which pool a role (trainer, critic, reference, sampler, ...) lives in."""

    def pools(self) -> Sequence[Pool]:
        """Return every pool, each once."""
        ...

    def pool_of(self, role: str) -> Pool:
        """Return the pool of a role."""
        ...


@dataclass(frozen=True)
class OnePool:
    """The placement of a single process: every role on one device, taking turns."""

    device: str = "auto"

    def pools(self) -> Sequence[Pool]:
        """Return the one pool."""
        return (self.pool_of("any"),)

    def pool_of(self, role: str) -> Pool:
        """Return the one pool, whatever the role."""
        return Pool("local", (str(device_of(self.device)),))
