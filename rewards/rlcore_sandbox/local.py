"""Runs on this machine, forked from a warm, sealed interpreter into namespaces of their own."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from rlcore.errors import ConfigError, nearest
from rlcore_sandbox.inside import LAYERS
from rlcore_sandbox.inside.channel import Channel, ChannelError
from rlcore_sandbox.protocol import ProgramResult, Runner, SandboxError, SandboxLimits, SuiteResult, UnusableTestsError
from rlcore_workers import ProcessState

START = "import sys; sys.path.insert(0, sys.argv[1]); from inside.main import main; main(int(sys.argv[2]), sys.argv[3])"
# Without site: nothing of what is installed is imported, and no startup file is read.
FLAGS = ("-S", "-s", "-P", "-B", "-X", "utf8")
STARTING = 60.0  # seconds
GRACE = 5.0  # seconds that a run may take beyond its own limit, before it is ended from outside
ENDING = 0.5  # seconds in which the interpreter is seen to have ended, where it took a run with it
LARGEST_VERDICT = 1 << 27  # bytes
ENVIRONMENT = {"HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1",
               "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}  # fmt: skip
"""The warm interpreter's environment: nothing of ours, and hashes that are the same in each run.

A module that is imported once for all must start no threads: a process with threads gets no user namespace, and a fork
would leave them behind. With more than one arena every thread takes 64 MiB of a run's address space.
"""
KEPT = ("LD_LIBRARY_PATH",)  # some Pythons find their own library by it


class Sandbox(ProcessState, Runner):
    """Runs Python solutions on this machine, each walled in on its own.

    Every run has user, mount, pid, network, ipc and uts namespaces of its own, a read-only root folder with nothing
    but Python's library, a private /tmp, limits, no privileges and a short list of system calls. What judges it is
    another process, which the solution exchanges plain data with and nothing else. A layer that the machine does not
    give is an error, unless it is named in `accept_missing`.

    Works as root and as a user where user namespaces are allowed. Linux on x86_64 or aarch64.

    Args:
        accept_missing: layers that may be missing, out of `LAYERS`. What is there is used all the same.
        concurrency: runs at a time; as many as there are processors without a number. Others wait their turn.
        site_packages: whether solutions see the packages installed beside this Python.
        preload: modules that are imported once for all runs.
    """

    def __init__(
        self,
        *,
        accept_missing: Sequence[str] = (),
        concurrency: int | None = None,
        site_packages: bool = False,
        preload: Sequence[str] = (),
    ) -> None:
        for layer in accept_missing:
            if layer not in LAYERS:
                raise ConfigError(
                    f"accept_missing={list(accept_missing)!r}; layers are {', '.join(LAYERS)}.{nearest(layer, LAYERS)}"
                )
        if concurrency is not None and concurrency < 1:
            raise ConfigError(f"concurrency={concurrency}; allowed: 1 or more")
        self.accept_missing = tuple(accept_missing)
        self.concurrency = concurrency or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
        self.site_packages = site_packages
        self.preload = tuple(preload)
        self.missing: dict[str, str] = {}
        self._begin()

    def _begin(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._errors: IO[bytes] | None = None
        self._owner = 0
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(self.concurrency)

    def start(self) -> None:
        """Start the warm interpreter, and look whether every layer is there; the first run does it too.

        Raises:
            SandboxError: a layer is missing and not accepted, or the interpreter does not start.
        """
        with self._lock:
            if self._owner not in (0, os.getpid()):
                # After a fork the interpreter belongs to the parent: the connection must not be shared.
                assert self._control is not None
                self._control.close()
                self._process = self._control = None
            if self._process is not None and self._process.poll() is not None:
                self._end()
            if self._process is None:
                self._launch()

    def close(self) -> None:
        """End the warm interpreter and everything that still runs. A closed sandbox can be used again."""
        with self._lock:
            self._end()

    def run(self, code: str, stdin: str = "", *, limits: SandboxLimits) -> ProgramResult:
        """Return how a program ends."""
        return program_result(self._run({"code": code, "stdin": stdin, "serve": False}, None, limits), limits)

    def run_tests(self, code: str, work: Mapping[str, Any], *, limits: SandboxLimits) -> SuiteResult:
        """Return what is wrong with each test; see `Runner`."""
        verdict = self._run({"code": code, "stdin": "", "serve": True}, work, limits)
        return SuiteResult(
            tuple(verdict.get("failures", ["the tests were ended at their limits"])), program_result(verdict, limits)
        )

    def _run(self, job: dict[str, Any], work: Mapping[str, Any] | None, limits: SandboxLimits) -> dict[str, Any]:
        """Return what the supervisor of a run says."""
        job |= {"seconds": limits.seconds, "limits": limits.in_bytes()}
        with self._places:
            for _ in range(2):
                self.start()
                with contextlib.suppress(BrokenPipeError):  # it died between two runs: start it once more
                    return self._supervised(job, work, limits)
        raise SandboxError(f"the sandbox's interpreter ended{self._standard_error()}")

    def _supervised(self, job: dict[str, Any], work: Mapping[str, Any] | None, limits: SandboxLimits) -> dict[str, Any]:
        name = secrets.token_hex(8)
        channel, started = self._connection(name), False
        try:
            channel.deadline = time.monotonic() + limits.seconds + GRACE + STARTING
            channel.send(json.dumps(job).encode())
            message = json.loads(channel.receive())
            started = "started" in message
            if started:
                channel.deadline = time.monotonic() + limits.seconds + GRACE
                if work is not None:
                    channel.send(json.dumps(work).encode())
                message = json.loads(channel.receive())
        except ChannelError as error:
            with self._lock, contextlib.suppress(OSError):  # ended from outside, with all its processes
                if self._control is not None:
                    self._control.send(b"k" + name.encode())
            message = self._missing_verdict(started, error)
        finally:
            channel.connection.close()
        if "fault" in message:
            kind = UnusableTestsError if "unusable" in message else SandboxError
            raise kind(message["fault"])
        return message

    def _missing_verdict(self, started: bool, error: ChannelError) -> dict[str, Any]:
        """Return a run whose supervisor ended without a word: the sandbox's fault only if the sandbox has ended.

        What a solution sends can use up what its tests may use, and that must count against it.
        """
        if started and self._process is not None:
            try:
                self._process.wait(ENDING)
            except subprocess.TimeoutExpired:
                return {"late": True, "code": -signal.SIGKILL}
        raise SandboxError(
            f"the sandbox failed before a solution could start: {error}{self._standard_error()}"
        ) from error

    def _connection(self, name: str) -> Channel:
        """Return a connection to a supervisor of its own. Raises BrokenPipeError if the interpreter has ended."""
        mine, theirs = socket.socketpair()
        try:
            with self._lock:
                if self._control is None:
                    raise BrokenPipeError
                socket.send_fds(self._control, [b"r" + name.encode()], [theirs.fileno()])
        except OSError as error:
            mine.close()
            raise BrokenPipeError from error
        finally:
            theirs.close()
        return Channel(mine, LARGEST_VERDICT)

    def _launch(self) -> None:
        if sys.platform != "linux":
            raise SandboxError(f"the sandbox needs Linux, and this is {sys.platform}; use reward.url with a service")
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        packages = sorted({sysconfig.get_path(name) for name in ("purelib", "platlib")}) if self.site_packages else []
        settings = json.dumps({"visible": packages, "paths": packages, "preload": self.preload})
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the interpreter
        here = str(Path(__file__).parent)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *FLAGS, "-c", START, here, str(theirs.fileno()), settings],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                cwd="/",
                env={**ENVIRONMENT, **{name: os.environ[name] for name in KEPT if name in os.environ}},
                start_new_session=True,
            )
        self._control, self._owner = mine, os.getpid()
        try:
            mine.settimeout(STARTING)
            missing = mine.recv(1 << 16)
            if not missing:
                raise SandboxError(f"the sandbox's interpreter did not start{self._standard_error()}")
            self.missing = json.loads(missing)
            lacking = [layer for layer in self.missing if layer not in self.accept_missing]
            if lacking:
                why = "; ".join(f"layer {layer!r} is missing ({self.missing[layer]})" for layer in lacking)
                raise SandboxError(
                    f"this machine cannot wall solutions in: {why}. To run without, and accept what a solution could"
                    f" then do: accept_missing={(*self.accept_missing, *lacking)!r}"
                )
            mine.send(b"y")
            if not mine.recv(16):
                raise SandboxError(f"the sandbox's interpreter could not wall itself in{self._standard_error()}")
            mine.settimeout(None)
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._errors is not None:
            self._errors.close()
        self._process = self._control = self._errors = None

    def _standard_error(self) -> str:
        """Return what the interpreter wrote to its standard error."""
        if self._errors is None:
            return ""
        self._errors.seek(0)
        text = self._errors.read()[-2000:].decode("utf-8", "replace").strip()
        return f"; it wrote: {text}" if text else ""


def program_result(verdict: Mapping[str, Any], limits: SandboxLimits) -> ProgramResult:
    """Return how a run ended, from what its supervisor says."""
    code, used = verdict["code"], verdict.get("cpu", 0.0)
    if verdict.get("late"):
        status = "time"
    elif code == -signal.SIGXCPU or (code == -signal.SIGKILL and used >= limits.cpu_seconds):
        status = "cpu"
    else:
        status = "killed" if code < 0 else "failed" if code else "finished"
    return ProgramResult(
        status, code, verdict.get("stdout", ""), verdict.get("stderr", ""), used, verdict.get("memory", 0)
    )
