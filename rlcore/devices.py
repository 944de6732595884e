"""The torch device of a name such as `auto` or `cuda:1`."""

from __future__ import annotations

import torch

from rlcore.errors import ConfigError, nearest

DEVICES = ("auto", "cuda", "mps", "cpu")


def choose_device(name: str = "auto") -> torch.device:
    """Return the device of a name: `auto` is CUDA if there is one, else MPS, else the CPU; `cuda:1` picks one.

    Raises:
        ConfigError: for a name that is no device, or a device that this machine lacks.
    """
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, present in available.items() if present))
    kind, _, index = name.partition(":")
    if kind not in available or (index and not index.isdecimal()) or name.endswith(":"):
        raise ConfigError(f"device {name!r} is none of {', '.join(DEVICES)}, cuda:N.{nearest(kind, DEVICES)}")
    if not available[kind]:
        present = ", ".join(kind for kind, is_there in available.items() if is_there)
        raise ConfigError(f"device {name!r} is not on this machine, which has {present}")
    if kind == "cuda" and index and int(index) >= torch.cuda.device_count():
        raise ConfigError(
            f"device {name!r} is not on this machine, whose CUDA devices are 0 to {torch.cuda.device_count() - 1}"
        )
    return torch.device(name)
