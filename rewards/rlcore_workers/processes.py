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
from typing import Any

from rlcore.errors import ConfigError
from rlcore_workers import fork_server

START_SECONDS = 300.0  # for what must be imported before the first call: a bound against a hang, no limit of the work
SEND_SECONDS = 30  # a worker that waits for work reads at once
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

    def __init__(self, server: ForkServer, pid: int, channel: socket.socket) -> None:
        self.server, self.pid, self.channel = server, pid, channel
        # Python's own timeout would make every look wait as well.
        self.channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", SEND_SECONDS, 0))
        self.known = frozenset(server.loaded)
        self.job: Job | None = None
        self.calls = 0
        self.deadline = math.inf
        self.received = bytearray()

    def send_call(self, job: Job, data: bytes, seconds: float | None) -> None:
        """Send a call. Raises OSError if the worker is gone."""
        self.job = job
        self.calls += 1
        self.deadline = math.inf if seconds is None else time.monotonic() + seconds
        self.channel.sendall(fork_server.FRAME.pack(fork_server.CALL, job.packed.number, len(data)) + data)

    def receive(self) -> tuple[bytes, bytes] | None:
        """Return the next answer, None if it is not whole yet. Raises EOFError if the worker is gone."""
        size = fork_server.FRAME.size
        if len(self.received) < size or len(self.received) < size + fork_server.FRAME.unpack_from(self.received)[2]:
            with contextlib.suppress(BlockingIOError):
                piece = self.channel.recv(1 << 20, socket.MSG_DONTWAIT)
                if not piece:
                    raise EOFError
                self.received += piece
        if len(self.received) < size:
            return None
        kind, _, length = fork_server.FRAME.unpack_from(self.received)
        if len(self.received) < size + length:
            return None
        data = bytes(self.received[size : size + length])
        del self.received[: size + length]
        return kind, data


class ForkServer:
    """The process that workers are forked from, as its owner sees it."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self.control, theirs = socket.socketpair()
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
        self.control.settimeout(START_SECONDS)
        self.loaded: deque[int] = deque(maxlen=fork_server.MOST_FUNCTIONS)
        try:
            self._send(pickle.dumps({**setup, "path": sys.path}), "worker processes cannot start")
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
            self.control.sendall(fork_server.ORDER.pack(b"L", packed.number))
            self._send(packed.data, f"{packed.name} cannot be loaded in a worker process")
        except TimeoutError as error:
            raise LoadingError(f"what it imports is not there after {START_SECONDS:g} s") from error
        except OSError as error:
            raise LoadingError(f"what it imports ends the process ({self._ended()})") from error
        self.loaded.append(packed.number)

    def _ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(END_SECONDS)
            return f"exit status {code}" if code >= 0 else signal.Signals(-code).name
        return "it lives, and answers no more"

    def fork(self) -> Worker:
        """Return a new worker."""
        ours, theirs = socket.socketpair()
        socket.send_fds(self.control, [fork_server.ORDER.pack(b"F", 0)], [theirs.fileno()])
        theirs.close()
        return Worker(self, self._answer(), ours)

    def end(self, worker: Worker) -> int:
        """Kill a worker if it still lives. Return the signal that ended it, 0 if it ended by itself."""
        worker.channel.close()
        self.control.sendall(fork_server.ORDER.pack(b"E", worker.pid))
        status = self._answer()
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0

    def close(self) -> None:
        """End it and all its workers."""
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_RDWR)  # forks of the owner may hold copies of this end
        self.control.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _send(self, data: bytes, otherwise: str) -> None:
        self.control.sendall(fork_server.ANSWER.pack(len(data)) + data)
        size = self._answer()
        if size:
            _, lines, description = pickle.loads(self._received(size))
            raise ConfigError(f"{otherwise}: {description}") from RemoteTraceback(lines)

    def _answer(self) -> int:
        answer: int = fork_server.ANSWER.unpack(self._received(fork_server.ANSWER.size))[0]
        return answer

    def _received(self, size: int) -> bytes:
        try:
            return fork_server.receive_bytes(self.control, size)
        except SystemExit:  # what ends the fork server itself where its owner is gone
            raise ConnectionError("the process that workers are forked from has ended") from None


def is_open(descriptor: int) -> bool:
    """Return whether a file descriptor is open."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
