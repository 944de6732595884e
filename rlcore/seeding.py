"""Random streams: every draw has a stream of its own, whose seed is computed from its path, its place in the run.

A stream depends on its path alone. So what one sample draws cannot depend on the batch around it, on the number of
workers or on what was drawn before a resume.
"""

from __future__ import annotations

import hashlib
import json
import operator
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from rlcore.errors import ConfigError


def stream(seed: int, *path: int | str) -> int:
    """Return the seed of one stream: 63 bits of the SHA-256 of the run's seed and the path.

    Args:
        seed: the run's seed, any integer.
        path: the place of the draw in the run: `stream(seed, "sample", step, group, index)`. 1 is not "1".

    Raises:
        ConfigError: for a part that is neither an integer nor a string.
    """
    return int.from_bytes(hashlib.sha256(_written(seed, path)).digest()[:8], "big") >> 1


def generator(seed: int, *path: int | str, device: str | torch.device = "cpu") -> torch.Generator:
    """Return a torch generator at the start of the stream."""
    return torch.Generator(device=device).manual_seed(stream(seed, *path))


def numpy_generator(seed: int, *path: int | str) -> np.random.Generator:
    """Return a NumPy generator (PCG64) at the start of the stream."""
    return np.random.Generator(np.random.PCG64(stream(seed, *path)))


@contextmanager
def seeded(seed: int, *path: int | str) -> Iterator[None]:
    """Run a block with the global generators (torch, NumPy, random) at the start of the stream; restore them after it.

    For code of others that uses the global generators, such as the initialisation of a model.
    """
    start = stream(seed, *path)
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng():
        torch.manual_seed(start)
        np.random.seed(start % 2**32)  # noqa: NPY002
        random.seed(start)
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)  # noqa: NPY002


def _written(seed: int, path: tuple[int | str, ...]) -> bytes:
    """Return the path as JSON, which keeps 1 and "1", and ("a", "b") and ("a/b",), apart."""
    parts: list[int | str] = []
    for part in (seed, *path):
        try:
            parts.append(part if isinstance(part, str) else operator.index(part))
        except TypeError:
            raise ConfigError(
                f"a seed's path is of integers and strings, not {part!r} ({type(part).__name__})"
            ) from None
    return json.dumps(parts, separators=(",", ":")).encode()
