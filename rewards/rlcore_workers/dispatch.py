"""How calls reach worker processes and what becomes of them: the thread behind `Workers`."""

# ruff: noqa: S301 - what is unpickled here comes from processes of this program

from __future__ import annotations

import contextlib
import functools
import linecache
import math
import os
import pickle
import re
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import Any, Literal

from rlcore.errors import ConfigError, RewardError
from rlcore_workers import fork_server
from rlcore_workers.processes import END_SECONDS, ForkServer, Job, LoadingError, PackedFunction, RemoteTraceback, Worker

Limit = Literal["time", "cpu", "memory", "died"]


class Stopped(RewardError):  # noqa: N818 - what happened to the call, not a fault of the caller
    """A call that was stopped: `limit` says by what ("time", "cpu", "memory"), or that its process "died"."""

    def __init__(self, message: str, limit: Limit = "died") -> None:
        super().__init__(message)
        self.limit: Limit = limit


class Dispatcher:
    """A thread that hands jobs to workers, waits for the answers, and kills what is past its time.

    It knows nothing of the `Workers` that it serves, so that these can be collected.
    """

    def __init__(self, setup: dict[str, Any], processes: int, seconds: float | None) -> None:
        self.setup, self.processes, self.seconds = setup, processes, seconds
        self.waiting: deque[Job] = deque()
        self.workers: list[Worker] = []
        self.server: ForkServer | None = None
        self.process = os.getpid()
        self.stopping, self.ended, self.lock = False, False, threading.Lock()
        self.bell, self.rung = socket.socketpair()
        self.rung.setblocking(False)
        self.thread = threading.Thread(target=self.run, name="rlcore-workers", daemon=True)
        self.thread.start()

    def put(self, jobs: Sequence[Job]) -> None:
        """Queue jobs, from any thread."""
        with self.lock:
            if not self.ended:
                self.waiting.extend(jobs)
                self.bell.send(b"x")
                return
        for job in jobs:
            fail(job, closed_error())

    def stop(self) -> None:
        """End workers and thread, from any thread, and wait for that unless this is the dispatching thread."""
        if self.process != os.getpid():
            return  # a fork of the owner; these are not its own
        with self.lock:
            self.stopping = True
            if not self.ended:
                self.bell.send(b"x")
        if threading.current_thread() is not self.thread:
            self.thread.join(2 * END_SECONDS)

    def run(self) -> None:
        """Serve until stopped."""
        try:
            while not self.stopping:
                self.assign()
                soonest = min((worker.deadline for worker in self.workers if worker.job), default=math.inf)
                wait = None if soonest == math.inf else max(0.0, soonest - time.monotonic())
                channels = {worker.channel: worker for worker in self.workers}
                for ready in connection.wait([self.rung, *channels], wait):
                    if ready is self.rung:
                        self.rung.recv(1 << 16)
                    else:
                        self.receive_answer(channels[ready])  # type: ignore[index]  # it waits for sockets as well
                now = time.monotonic()
                for worker in [worker for worker in self.workers if worker.job and worker.deadline <= now]:
                    # An answer that is there already counts, however late this thread woke.
                    self.receive_answer(worker)
                    if worker.job and worker.deadline <= now:
                        self.end_worker(worker, "time")
        finally:
            self.end()

    def assign(self) -> None:
        """Send waiting jobs to idle workers, and to new ones while there may be more."""
        idle = [worker for worker in self.workers if worker.job is None]
        while self.waiting and not self.stopping and (idle or len(self.workers) < self.processes):
            job = self.waiting.popleft()
            if not job.future.running() and not job.future.set_running_or_notify_cancel():
                continue
            try:
                worker = self.pick_worker(job.packed, idle)
            except Exception as error:  # noqa: BLE001 - whatever keeps a worker from starting is told to whoever waits
                fail(job, error)
                self.fail_waiting(error, job.packed)
                continue
            if job.data is None:
                idle.append(worker)
                job.future.set_result(None)
                continue
            try:
                worker.send_call(job, job.data, self.seconds)
            except OSError:
                self.end_worker(worker, "died")

    def pick_worker(self, packed: PackedFunction, idle: list[Worker]) -> Worker:
        """Return an idle worker that knows the function, or a new one, perhaps in the place of one that does not."""
        for worker in idle:
            if packed.number in worker.known:
                idle.remove(worker)
                return worker
        if len(self.workers) >= self.processes:
            self.end_worker(idle.pop())
        return self.start_worker(packed)

    def start_worker(self, packed: PackedFunction) -> Worker:
        """Return a new worker. Raises ConfigError if something cannot be loaded, OSError if there can be no process."""
        if self.server is not None and self.server.process.poll() is not None:
            self.drop_server()
        if self.server is None:
            self.server = ForkServer(self.setup)
        try:
            if packed.number not in self.server.loaded:
                self.server.load(packed)
            worker = self.server.fork()
        except OSError as error:  # it died or hangs over an import: what it would still answer is out of step
            self.drop_server()
            if isinstance(error, LoadingError):
                raise ConfigError(f"{packed.name} cannot be loaded in a worker process: {error}") from error
            raise
        self.workers.append(worker)
        return worker

    def drop_server(self) -> None:
        """End a fork server that is of no use any more; its workers end with it."""
        if self.server is not None:
            self.server.process.kill()
            self.server.close()
        self.server = None

    def receive_answer(self, worker: Worker) -> None:
        """Settle the job that a worker has answered, if it has; end a worker that is gone."""
        try:
            if worker.channel.poll():
                answer = worker.channel.recv_bytes()
                kind, data = answer[:1], answer[1:]
                if kind == fork_server.MEMORY and worker.job is not None:
                    self.end_worker(worker, "memory")
                    return
                if worker.job is not None:
                    job, worker.job = worker.job, None
                    settle(job, kind, data)
        except (EOFError, OSError):
            self.end_worker(worker)

    def end_worker(self, worker: Worker, limit: Limit | None = None) -> None:
        """End a worker, and fail its job with what it was stopped by."""
        if worker not in self.workers:
            return
        self.workers.remove(worker)
        job, worker.job = worker.job, None
        try:
            ended_by = worker.server.end(worker)
        except OSError:  # the fork server is gone, and its workers with it
            ended_by = signal.SIGKILL
        if job is None:
            return
        if limit is None:
            limit = "cpu" if ended_by == signal.SIGPROF else "died"
        if limit == "memory" and worker.calls > 1:  # what earlier calls left behind must not decide
            self.waiting.appendleft(job)
            return
        fail(job, Stopped(self.message(limit, ended_by), limit))

    def message(self, limit: Limit, ended_by: int) -> str:
        """Return what happened to a call."""
        if limit == "time":
            return f"stopped after {self.seconds:g} s"
        if limit == "cpu":
            return f"stopped after {self.setup['cpu_seconds']:g} s of CPU time"
        if limit == "memory":
            return f"stopped: it needed more than {self.setup['memory_bytes'] / 2**20:g} MiB of memory"
        with contextlib.suppress(ValueError):
            return f"its process died, ended by {signal.Signals(ended_by).name}"
        return "its process died: the function ended it"

    def fail_waiting(self, error: BaseException, packed: PackedFunction) -> None:
        """Fail the jobs of one function that wait."""
        for _ in range(len(self.waiting)):
            job = self.waiting.popleft()
            if job.packed is packed:
                fail(job, error)
            else:
                self.waiting.append(job)

    def end(self) -> None:
        """End every process, and fail whatever is unfinished."""
        with self.lock:
            self.ended = True
        jobs = [worker.job for worker in self.workers if worker.job] + list(self.waiting)
        if self.server is not None:
            self.server.close()
        for worker in self.workers:
            worker.channel.close()
        for closing in (self.bell, self.rung):
            closing.close()
        for job in jobs:
            fail(job, closed_error())


def settle(job: Job, kind: bytes, data: bytes) -> None:
    """Give a job what its function returned or raised."""
    try:
        value = pickle.loads(data)
    except BaseException as error:  # noqa: BLE001 - a stranger's type may not come back; its error is this call's
        fail(job, RewardError(f"what it gave cannot be read here: {fork_server.describe_error(error)}"))
        return
    if kind == fork_server.RESULT:
        job.future.set_result(value)
        return
    raised, lines, description = value
    raised = RewardError(description) if raised is None else raised
    raised.__cause__ = RemoteTraceback(with_source_lines(lines, job.packed.function))
    fail(job, raised)


def with_source_lines(lines: str, function: Callable[..., Any]) -> str:
    """Return a traceback with the file and source lines of a function that was pickled by value."""
    while isinstance(function, functools.partial):
        function = function.func
    called = function if hasattr(function, "__code__") else type(function).__call__
    code = getattr(called, "__code__", None)
    if code is None:
        return lines
    first, last = code.co_firstlineno, max(line for *_, line in code.co_lines() if line)

    def with_source(frame: re.Match[str]) -> str:
        line = int(frame["line"])
        if not first <= line <= last:
            return frame[0]
        source = linecache.getline(code.co_filename, line).strip()
        return f'  File "{code.co_filename}", line {line}, in {code.co_name}\n' + (f"    {source}\n" if source else "")

    return re.sub(rf'  File "<dynamic-code>", line (?P<line>\d+), in {re.escape(code.co_name)}\n', with_source, lines)


def fail(job: Job, error: BaseException) -> None:
    """Give a job an exception, unless its caller has given it up."""
    if not job.future.done():
        job.future.set_exception(error)


def closed_error() -> Stopped:
    """Return what a job is told that was not finished when its workers were closed."""
    return Stopped("not finished when its workers were closed")
