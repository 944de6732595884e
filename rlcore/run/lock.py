"""A lock on a run's folder, so that one process at a time writes there; it ends with the process."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rlcore.errors import RunError

LOCK = "run.lock"
"""The locked file in a run's folder, with the id of the process that writes there."""

_held: set[int] = set()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder while the block runs. Raises RunError naming the process that already holds it.

    Where the system or the file system has no such locks, nothing is locked.
    """
    descriptor = _locked_file(folder) if sys.platform != "win32" else None
    if descriptor is None:
        yield
        return
    _held.add(descriptor)
    try:
        yield
    finally:
        # Removed while it is still locked: a process that has opened it meanwhile tries again (`_locked_file`).
        with contextlib.suppress(OSError):
            (folder / LOCK).unlink()
        _held.discard(descriptor)
        os.close(descriptor)


def _locked_file(folder: Path) -> int | None:
    """Return the descriptor of the locked file, None where files cannot be locked."""
    import fcntl

    path = folder / LOCK
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise RunError(f"the run's folder {str(folder)!r} cannot be written to: {error}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            writer = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise RunError(
                f"run {str(folder)!r} is being written by another process (pid {writer}, as {path} says); "
                f"wait until it ends or stop it, or choose another run.name"
            ) from None
        except OSError:
            os.close(descriptor)
            return None
        if _is_still(path, descriptor):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            return descriptor
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    """Return whether the file of that name is still the opened one."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _forget() -> None:
    """Close the locks of the parent in a forked child: a worker that outlives a killed run would keep them."""
    for descriptor in _held:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
