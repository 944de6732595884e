"""One run: a supervisor, first process of its own pid namespace, and the solution's process beneath it.

The solution's process is forked before the supervisor has read a single test, and lets go of the supervisor's
connection before it runs a line of the solution. When the supervisor ends, the kernel ends all else in the namespace.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import select
import shutil
import signal
import socket
import tempfile
import time
from typing import Any

from . import kernel, walls
from .channel import Channel, ChannelError
from .run_tests import Solution, run_suite
from .solution import SolutionServer, fresh_streams, run

LARGEST_JOB = 1 << 28  # bytes; a job comes from our own side
LARGEST_ANSWER = 1 << 22
LARGEST_ANSWERS = 1 << 26  # all of one run, one after another


def supervise(connection: socket.socket, layers: set[str]) -> None:
    """Take one job from a connection, run it, and send what came of it."""
    channel = Channel(connection, LARGEST_JOB, time.monotonic() + 60)
    try:
        job = json.loads(channel.receive())
        verdict = SupervisedRun(job, layers, channel).verdict()
    except ChannelError:  # whoever asked is gone
        return
    except BaseException as error:  # noqa: BLE001 - told to whoever asked, as a failure of the sandbox
        verdict = {"fault": f"{type(error).__name__}: {error}"}
    channel.deadline = None
    channel.send(json.dumps(verdict).encode())


class SupervisedRun:
    """A job that is being run."""

    def __init__(self, job: dict[str, Any], layers: set[str], channel: Channel) -> None:
        self.job = job
        self.limits: dict[str, int] = job["limits"]
        self.layers = layers
        self.channel = channel
        self.files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
        self.folder = "" if "mount" in layers else new_folder()
        os.write(self.files[0], job["stdin"].encode("utf-8", "surrogateescape"))
        os.lseek(self.files[0], 0, os.SEEK_SET)

    def verdict(self) -> dict[str, Any]:
        """Return what came of the job."""
        here, there = socket.socketpair()
        ready, tell = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            self.become_solution(there, tell)
        there.close()
        os.close(tell)
        with os.fdopen(ready, "rb") as pipe:
            fault = pipe.read().decode()
        if fault != "ready":
            return {"fault": f"the solution's process could not be walled in: {fault or 'it ended early'}"}
        deadline = time.monotonic() + self.job["seconds"]
        ended = os.pidfd_open(self.process)
        self.channel.send(b'{"started":true}')
        self.guard_itself()
        found = self.run_tests(here, deadline) if self.job["serve"] else self.wait_for_program(ended, deadline)
        # Whatever it answered, by now it has nothing more to say.
        os.kill(self.process, signal.SIGKILL)
        _, status, used = os.wait4(self.process, 0)
        if self.folder:
            remove(self.folder)
        code = os.waitstatus_to_exitcode(status)
        return {
            **found,
            "code": code,
            "cpu": used.ru_utime + used.ru_stime,
            "memory": used.ru_maxrss * 1024,
            "stdout": self.read_output(1),
            "stderr": self.read_output(2),
        }

    def become_solution(self, connection: socket.socket, tell: int) -> None:
        """Become the solution's process: put up the walls, then run its code. Does not return."""
        stage: list[str] = []
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.setsid()
            descriptors = [*self.files, connection.fileno(), tell]
            # Out of the way first: any of them may stand where another is to be.
            for number, file in enumerate([fcntl.fcntl(file, fcntl.F_DUPFD, 10) for file in descriptors]):
                os.dup2(file, number)
            os.closerange(5, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            if self.folder:
                os.chdir(self.folder)
            walls.surround(self.limits, self.layers, stage)
            fresh_streams()
            served = self.job["serve"]
            pipe = socket.socket(fileno=3) if served else None
            if not served:
                os.close(3)
        except BaseException as error:  # noqa: BLE001 - told to the supervisor, and from there to whoever asked
            os.write(4, f"{'/'.join(stage[-1:])}: {type(error).__name__}: {error}".encode())
            os._exit(1)
        os.write(4, b"ready")
        os.close(4)
        code = self.job["code"]
        self.__dict__.clear()
        if pipe is None:
            os._exit(run(code))
        try:
            SolutionServer(pipe, LARGEST_ANSWER).serve(code)
        finally:
            os._exit(0)

    def guard_itself(self) -> None:
        """Bound what tests may use, and keep the solution from looking in here: tests come into this process next."""
        if "user" not in self.layers:  # it could not end the solution otherwise, which is nobody by now
            walls.leave_root()
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        if not self.job["serve"]:  # it reads nothing but bytes that were printed
            return
        walls.lower(resource.RLIMIT_AS, 2 << 30, 2 << 30)
        walls.lower(resource.RLIMIT_CPU, self.limits["cpu_seconds"] + 1, self.limits["cpu_seconds"] + 1)
        # In a pid namespace the solution can kill everything but this first process.
        walls.seal([], self.layers)

    def run_tests(self, connection: socket.socket, deadline: float) -> dict[str, Any]:
        """Return what is wrong with each test of the solution."""
        work = json.loads(self.channel.receive())
        solution = Solution(Channel(connection, LARGEST_ANSWER, deadline), LARGEST_ANSWERS)
        return run_suite(solution, work)

    def wait_for_program(self, ended: int, deadline: float) -> dict[str, Any]:
        """Wait for a program to end, at most until the deadline."""
        found, _, _ = select.select([ended], [], [], max(0.0, deadline - time.monotonic()))
        return {"late": not found}

    def read_output(self, number: int) -> str:
        """Return what went to standard output or error, as text; of the latter the end."""
        size = os.fstat(self.files[number]).st_size
        length = min(size, self.limits["output_bytes"] if number == 1 else 4000)
        data = os.pread(self.files[number], length, 0 if number == 1 else size - length)
        return data.decode("utf-8", "replace")


def new_folder() -> str:
    """Return a folder for a run that can have no /tmp of its own, owned by whom it will run as."""
    folder = tempfile.mkdtemp(prefix="rlcore-solution-")
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):  # as for `walls.leave_root`
            os.chown(folder, kernel.NOBODY, kernel.NOBODY)
    return folder


def remove(folder: str) -> None:
    """Remove the folder of a run, however deep the folders in it are: what lies in one is moved up before it goes."""
    moved = 0
    with contextlib.suppress(OSError):  # something of another user: what can be removed is
        while inner := [one.path for one in os.scandir(folder) if one.is_dir(follow_symlinks=False)]:
            for path in inner:
                os.chmod(path, 0o700)  # noqa: PTH101
                for one in list(os.scandir(path)):
                    if one.is_dir(follow_symlinks=False):
                        os.chmod(one.path, 0o700)  # noqa: PTH101 - else it cannot be moved
                        os.rename(one.path, f"{folder}/.moved-{moved}")  # noqa: PTH104
                        moved += 1
                    else:
                        os.unlink(one.path)  # noqa: PTH108
                os.rmdir(path)  # noqa: PTH106
    shutil.rmtree(folder, ignore_errors=True)
