"""The small process that workers are forked from, and what a worker does. Run as a file, never imported by rlcore.

It is a fresh interpreter and no fork of the trainer, which holds threads, locks and a model. It has one thread and
imports nothing but what the functions ask for, once for all workers: a fork of it takes a millisecond and can be
killed at any time.
"""

# ruff: noqa: S301 - what is unpickled here comes from processes of this program

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import importlib
import inspect
import os
import pickle
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from multiprocessing import reduction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

RESULT, ERROR, MEMORY = b"R", b"E", b"M"  # what a worker's answer begins with
MOST_FUNCTIONS = 64  # that are kept; the oldest goes
PARENT_LOOK = 1.0  # seconds between two looks whether the owner still lives; its socket nearly always says so at once
DIES_WITH_PARENT, ADOPTS_ORPHANS = 1, 36  # Linux: prctl's PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER


def main(control: Connection) -> None:
    """Import what is asked for, then load functions, fork and end workers until the owner closes its end or dies."""
    owner = os.getppid()
    setup = control.recv()
    sys.path[:] = setup["path"]
    prctl(ADOPTS_ORPHANS, 1)
    control.send(failure_of(lambda: [importlib.import_module(name) for name in ("cloudpickle", *setup["preload"])]))
    functions: dict[int, Any] = {}
    statuses: dict[int, int | None] = {}
    try:
        while os.getppid() == owner:
            ready = control.poll(PARENT_LOOK)
            reap(statuses)
            if ready:
                control.send(order_result(control, functions, statuses, setup))
    except EOFError:  # the owner has closed its end
        pass
    finally:
        for pid in [pid for pid, status in statuses.items() if status is None]:
            end(pid, statuses)
        end_adopted()


def order_result(
    control: Connection, functions: dict[int, Any], statuses: dict[int, int | None], setup: dict[str, Any]
) -> int | bytes:
    """Return the answer to one order: the pid of a new worker for the socket that comes along, the status of a worker
    that was ended, or what went wrong when a function was loaded. Raises EOFError where the owner has closed its end.
    """
    order, number, data = control.recv()
    if order == "fork":
        channel = Connection(reduction.recv_handle(control))
        pid = fork_worker(channel, control, functions, setup)
        statuses[pid] = None
        channel.close()
        return pid
    if order == "load":
        failed = failure_of(lambda: functions.update({number: pickle.loads(data)}))
        if len(functions) > MOST_FUNCTIONS:
            del functions[next(iter(functions))]
        return failed
    end(number, statuses)
    return statuses.pop(number) or 0


def failure_of(act: Callable[[], Any]) -> bytes:
    """Call `act` and return its error as bytes, empty if it has none."""
    failed = b""
    try:
        act()
    except BaseException as error:  # noqa: BLE001 - importing a stranger's module may raise anything; the owner says so
        failed = pickle_error(error)
    gc.freeze()  # a collection in a worker would copy every page of what is shared
    return failed


def fork_worker(channel: Connection, control: Connection, functions: dict[int, Any], setup: dict[str, Any]) -> int:
    """Return the pid of a new worker, which never returns from here."""
    parent = os.getpid()
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads, which a preload may have made
        pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):  # it did so itself, or is gone
            os.setpgid(pid, pid)
        return pid
    code = 1
    try:
        control.close()
        os.setpgid(0, 0)
        prctl(DIES_WITH_PARENT, signal.SIGKILL)
        if os.getppid() == parent:
            work(channel, functions, setup)
            code = 0
    finally:
        os._exit(code)


def reap(statuses: dict[int, int | None]) -> None:
    """Take note of workers that died by themselves, and of orphans that they left."""
    while True:
        try:
            # Not reaped before its group is killed: until then no other process can have its number.
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None:
            return
        end(found.si_pid, statuses)


def end(pid: int, statuses: dict[int, int | None]) -> None:
    """Kill a child with all of its process group, unless that was done already, and keep how it ended."""
    if pid in statuses:
        if statuses[pid] is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if pid in statuses:
        statuses[pid] = status


def end_adopted() -> None:
    """Kill what workers started in sessions of its own and left behind."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while children.exists() and (left := children.read_text().split()):
        for pid in left:
            end(int(pid), {})


def prctl(option: int, value: int) -> None:
    """Ask Linux for a property of this process; elsewhere the fork server alone looks after its workers."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# -- a worker


def work(channel: Connection, functions: dict[int, Any], setup: dict[str, Any]) -> None:
    """Call functions until the owner closes the channel. The memory limit counts from what is loaded already."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    with contextlib.suppress(OSError):  # where memory runs out, a worker goes before the trainer does
        Path("/proc/self/oom_score_adj").write_text("1000")
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if setup["memory_bytes"] is not None:
        limit_memory(setup["memory_bytes"])
    while True:
        number, data = channel.recv()
        channel.send_bytes(b"".join(call_result(functions[number], data, setup)))


def call_result(function: Any, data: bytes, setup: dict[str, Any]) -> tuple[bytes, bytes]:
    """Return what the function returns or raises; the kernel kills the process past its CPU time."""
    cpu_seconds, memory_bytes = setup["cpu_seconds"], setup["memory_bytes"]
    if cpu_seconds is not None:
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    try:
        args, kwargs = pickle.loads(data)
        result = function(*args, **kwargs)
        if inspect.isawaitable(result):
            result = asyncio.run(await_result(result))
        data = pickle_value(result)
        pickle.loads(data)  # what making it again does, its owner must not be the first to see
        return RESULT, data
    except BaseException as error:  # noqa: BLE001 - a stranger's function may raise anything; the owner is told
        if isinstance(error, MemoryError) and memory_bytes is not None:
            return MEMORY, b""
        return ERROR, pickle_error(error)
    finally:
        # An alarm of its own that a function forgot would hit the next one.
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def limit_memory(extra: int) -> None:
    """Let the address space grow by so many bytes from what it is now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft = pages * resource.getpagesize() + extra
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def pickle_value(value: Any) -> bytes:
    """Return the pickle of a result; what only this process knows by name goes by value."""
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001 - whatever plain pickle cannot do, the other may; its own error is told
        data: bytes = sys.modules["cloudpickle"].dumps(value)
        return data


def pickle_error(error: BaseException) -> bytes:
    """Return an exception, the lines of its traceback from the function's own code on, and what it says, as bytes."""
    lines = "".join(traceback.format_exception(without_own_frames(error)))
    description = describe_error(error)
    if isinstance(error, Exception):  # one that ends an interpreter must not do so to the owner's
        try:
            data = pickle_value((error, lines, description))
            pickle.loads(data)  # many an exception can be pickled, but not made again
        except Exception:  # noqa: BLE001 - then its text has to do
            return pickle_value((None, lines, description))
        return data
    return pickle_value((None, lines, description))


def describe_error(error: BaseException) -> str:
    """Return an exception's type and text, also of one whose text cannot be had."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a stranger's exception may raise anything
        return type(error).__name__


def without_own_frames(error: BaseException) -> BaseException:
    """Return the error with its traceback cut to begin behind this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return error.with_traceback(trace)


async def await_result(result: Any) -> Any:
    """Return what an awaitable gives, as the coroutine that a loop wants."""
    return await result


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
