"""Worker processes, and the one that they are forked from, as their owner sees them."""

# ruff: noqa: S301 - what is unpickled here comes from processes of this program

from __future__ import annotations

import contextlib
import math
import multiprocessing.spawn
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

from rlcore.errors import ConfigError
from rlcore_workers import fork_server

START_SECONDS = 300.0  # for what must be imported before the first call: a bound against a hang, no limit of the work
MESSAGE_SECONDS = 30  # for one message to or from a worker
END_SECONDS = 5.0


class RemoteTraceback(Exception):  # noqa: N818 - stands as the cause of an exception, never raised itself
    """The traceback of an exception in its worker, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class LoadingError(ConnectionError):
    """To load a function ended the process that workers are forked from, or took too long."""


@dataclass(frozen=True, eq=False)
class PackedFunction:
    """A function as it travels; `function` keeps the id taken for as long as it is looked up by it."""

    function: Callable[..., Any]
    name: str
    number: int
    data: bytes


@dataclass(eq=False)
class Job:
    """One call that waits for its worker or is there; without data it asks only that there be a worker."""

    packed: PackedFunction
    data: bytes | None
    future: Future[Any] = field(default_factory=Future)


class Worker:
    """One worker process as its owner sees it; it knows the functions that were loaded when it was forked."""

    def __init__(self, server: ForkServer, pid: int, channel: Connection) -> None:
        self.server, self.pid, self.channel = server, pid, channel
        self.known = frozenset(server.loaded)
        self.job: Job | None = None
        self.calls = 0
        self.deadline = math.inf

    def send_call(self, job: Job, data: bytes, seconds: float | None) -> None:
        """Send a call. Raises OSError if the worker is gone."""
        self.job = job
        self.calls += 1
        self.deadline = math.inf if seconds is None else time.monotonic() + seconds
        self.channel.send((job.packed.number, data))


class ForkServer:
    """The process that workers are forked from, as its owner sees it."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self.control, theirs = multiprocessing.Pipe()
        # -P: what lies beside the file is no module to be found by its bare name.
        command = [multiprocessing.spawn.get_executable(), "-P", fork_server.__file__, str(theirs.fileno())]
        printed = 2 if is_open(2) else subprocess.DEVNULL
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            pass_fds=[theirs.fileno()],
            env={"OMP_NUM_THREADS": "1", **os.environ},
            start_new_session=True,  # an interrupt at the terminal is for its owner alone
        )
        theirs.close()
        self.loaded: deque[int] = deque(maxlen=fork_server.MOST_FUNCTIONS)
        try:
            self._raise_failure(self._answer({**setup, "path": sys.path}), "worker processes cannot start")
        except BaseException:
            self.close()
            raise

    def load(self, packed: PackedFunction) -> None:
        """Make a function known to the workers forked from now on.

        Raises:
            ConfigError: it cannot be loaded.
            LoadingError: to load it ends the process, or takes too long; the fork server is of no use any more.
        """
        try:
            failed = self._answer(("load", packed.number, packed.data))
        except TimeoutError as error:
            raise LoadingError(f"what it imports is not there after {START_SECONDS:g} s") from error
        except OSError as error:
            raise LoadingError(f"what it imports ends the process ({self._ended()})") from error
        self._raise_failure(failed, f"{packed.name} cannot be loaded in a worker process")
        self.loaded.append(packed.number)

    def _ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(END_SECONDS)
            return f"exit status {code}" if code >= 0 else signal.Signals(-code).name
        return "it lives, and answers no more"

    def fork(self) -> Worker:
        """Return a new worker."""
        ours, theirs = socket.socketpair()
        # A worker that waits for work reads at once, and one that answers sends the whole: neither may hold us up.
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            ours.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", MESSAGE_SECONDS, 0))
        with theirs:
            pid = self._answer(("fork", 0, b""), handle=theirs.fileno())
        return Worker(self, pid, Connection(ours.detach()))

    def end(self, worker: Worker) -> int:
        """Kill a worker if it still lives. Return the signal that ended it, 0 if it ended by itself."""
        worker.channel.close()
        status = self._answer(("end", worker.pid, b""))
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0

    def close(self) -> None:
        """End it and all its workers."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.control.fileno())) as control:
            control.shutdown(socket.SHUT_RDWR)  # forks of the owner may hold copies of this end
        self.control.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _answer(self, order: Any, handle: int | None = None) -> Any:
        """Return the answer to an order, with which a file descriptor may go. Raises OSError where there is none."""
        self.control.send(order)
        if handle is not None:
            reduction.send_handle(self.control, handle, self.process.pid)
        if not self.control.poll(START_SECONDS):
            raise TimeoutError
        try:
            return self.control.recv()
        except EOFError:
            raise ConnectionError("the process that workers are forked from has ended") from None

    @staticmethod
    def _raise_failure(failed: bytes, what: str) -> None:
        if failed:
            _, lines, description = pickle.loads(failed)
            raise ConfigError(f"{what}: {description}") from RemoteTraceback(lines)


def is_open(descriptor: int) -> bool:
    """Return whether a file descriptor is open."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
