"""Calls under limits of time, CPU and memory that truly stop the work, in processes that can be killed."""

from __future__ import annotations

import abc
import math
import os
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from types import CellType
from typing import Any

import cloudpickle

from rlcore.component import dumps, name_of
from rlcore.errors import ComponentError, ConfigError
from rlcore_workers.dispatch import Dispatcher
from rlcore_workers.fork_server import MOST_FUNCTIONS
from rlcore_workers.processes import Job, PackedFunction

_PICKLING = threading.Lock()  # which modules go by value is a setting of the whole process


class ProcessState(abc.ABC):
    """An object whose attributes with a leading underscore stay behind when it is pickled, and begin anew there.

    `_begin` sets them; a subclass calls it at the end of its `__init__`.
    """

    @abc.abstractmethod
    def _begin(self) -> None:
        """Set the attributes that belong to one process."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()


class Workers:
    """Worker processes that call functions under limits, for any thread of this process.

    A call past a limit is killed with everything that it started, and a new worker takes the place of the dead one.
    Workers are forked from a small fresh interpreter, not from this process. They start with the first call and end
    with `close`, with this object, or with this process, however that ends.

    Functions travel by cloudpickle, once: what they remember between calls is each worker's own, and a change of what
    they captured is not seen here. Standard input is empty, what they print goes to the standard error of this
    process. Numeric libraries get one thread, unless OMP_NUM_THREADS says otherwise.

    Args:
        processes: the most workers at a time.
        seconds: the longest that one call may take by the clock, None for no limit.
        cpu_seconds: the most CPU time of one call in its worker, that of processes which it starts aside.
        memory_bytes: by how much the address space of a worker may grow over what loading the function needs; Linux
            only. A call that fails for it in a used worker is tried once more in a fresh one.
        preload: modules to import before the first fork, for what is heavy: imports inside a call count for its time.
    """

    def __init__(
        self,
        *,
        processes: int = 2,
        seconds: float | None,
        cpu_seconds: float | None = None,
        memory_bytes: int | None = None,
        preload: tuple[str, ...] = (),
    ) -> None:
        if processes < 1:
            raise ConfigError(f"processes={processes}; allowed: 1 or more")
        for name, value in {"seconds": seconds, "cpu_seconds": cpu_seconds, "memory_bytes": memory_bytes}.items():
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ConfigError(f"{name}={value}; allowed: a finite number above 0, or None for no limit")
        if memory_bytes is not None and sys.platform != "linux":
            raise ConfigError("memory_bytes is enforced on Linux only; here it must be None")
        self.processes = processes
        self.seconds = seconds
        self.limits = {"cpu_seconds": cpu_seconds, "memory_bytes": memory_bytes}
        self.preload = preload
        self._functions: OrderedDict[int, PackedFunction] = OrderedDict()
        self._count = 0
        self._dispatcher: Dispatcher | None = None
        self._finish: Callable[[], Any] | None = None
        self._lock, self._process = threading.Lock(), os.getpid()

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns (awaited, if it is a coroutine); blocks the calling thread.

        Raises:
            Stopped: a limit was passed, or the process died.
            Exception: what the function raised, with its remote traceback as cause.
            ConfigError: the function cannot travel to a worker, or not be loaded there.
        """
        return self.submit(function, *args, **kwargs).result()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the call as a future, at once. Raises ConfigError if the function cannot travel."""
        return self.submit_all(function, [(args, kwargs)])[0]

    def submit_all(
        self, function: Callable[..., Any], calls: Iterable[tuple[Sequence[Any], dict[str, Any]]]
    ) -> list[Future[Any]]:
        """Return one future per call, given as positional and named arguments: cheaper than one by one."""
        packed = self._packed(function)
        jobs = []
        for call in calls:
            job = Job(packed, b"")
            try:
                job = Job(packed, cloudpickle.dumps(call))
            except Exception as error:  # noqa: BLE001 - arguments of strangers' types; the error is this one call's
                job.future.set_exception(error)
            jobs.append(job)
        self._running().put([job for job in jobs if not job.future.done()])
        return [job.future for job in jobs]

    def prepare(self, function: Callable[..., Any]) -> None:
        """Load the function for the workers to come. Raises ConfigError if it cannot travel, or not be loaded there."""
        job = Job(self._packed(function), None)
        self._running().put([job])
        job.future.result()

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Return for each item, in order, what the function returns, or the exception that `call` would raise."""
        futures = self.submit_all(function, [((item,), {}) for item in items])
        try:
            return [future.exception() or future.result() for future in futures]
        except BaseException:  # the caller was interrupted: nobody wants the rest
            for future in futures:
                future.cancel()
            raise

    def close(self) -> None:
        """End every worker. Calls under way fail; a later call starts new workers."""
        with self._lock:
            self._dispatcher = None
            finish, self._finish = self._finish, None
        if finish is not None:
            finish()

    def _running(self) -> Dispatcher:
        if self._process != os.getpid():  # a fork of the process that made this: the workers are not its own
            self._lock, self._process, self._dispatcher = threading.Lock(), os.getpid(), None
        with self._lock:
            if self._dispatcher is None or self._dispatcher.ended:
                setup = {**self.limits, "preload": self.preload}
                self._dispatcher = Dispatcher(setup, self.processes, self.seconds)
                self._finish = weakref.finalize(self, self._dispatcher.stop)
            return self._dispatcher

    def _packed(self, function: Callable[..., Any]) -> PackedFunction:
        with self._lock:
            found = self._functions.get(id(function))
            if found is None:
                self._count += 1
                found = PackedFunction(function, name_of(function), self._count, pickle_function(function))
                self._functions[id(function)] = found
                if len(self._functions) > MOST_FUNCTIONS:
                    self._functions.popitem(last=False)
            return found


def pickle_function(function: Callable[..., Any]) -> bytes:
    """Return the pickle of a function. Raises ConfigError that says what of it cannot be pickled."""
    try:
        with _PICKLING:
            return dumps(function)
    except ComponentError as error:
        raise ConfigError(f"{name_of(function)} cannot be sent to a worker process: {error}") from error
    except Exception as error:  # what a stranger's objects raise when they are pickled
        why = f"{type(error).__name__}: {error}{describe_unpicklable(function)}"
        raise ConfigError(f"{name_of(function)} cannot be sent to a worker process: {why}") from error


def describe_unpicklable(function: Callable[..., Any]) -> str:
    """Return which variables or attributes of a function cannot be pickled, as the end of a sentence."""
    source = function
    while hasattr(source, "func"):
        source = source.func
    values = dict(getattr(source, "__dict__", {}))
    code = getattr(source, "__code__", None)
    if code is not None:
        values |= {name: source.__globals__[name] for name in code.co_names if name in source.__globals__}
        cells = zip(code.co_freevars, source.__closure__ or (), strict=True)
        values |= dict(cells)
    bad = []
    for name, value in values.items():
        try:
            cloudpickle.dumps(value)
        except Exception:  # noqa: BLE001 - the question is only whether it can
            kind = type(value.cell_contents if isinstance(value, CellType) else value)
            bad.append(f"{name!r} ({kind.__name__})")
    return f"; it holds {', '.join(bad)}" if bad else ""
