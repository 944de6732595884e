"""Roles in processes of their own: how one is started, asked, watched and ended.

The process is a fresh interpreter, so that nothing of the caller's (locks, threads, a script without a main guard) gets
in the way. Calls travel over a socket as pickles; what they return, or raise, travels back. Coroutines of one role run
beside one another; other calls one after another. Calls of coroutines that are made in one turn of the event loop
travel in one message, and so do answers that are ready within `GATHER` seconds: a thousand sessions are no thousand
messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import cloudpickle

from rlcore.component import dumps
from rlcore.errors import ConfigError, RunError

_HEADER = struct.Struct(">Q")
_LONGEST = 10.0**7
"""Seconds that a socket can be told to wait."""
# Its number, method (None cancels that call), arguments, options.
_Call = tuple[int, str | None, tuple[Any, ...], dict[str, Any]]
# The call's number (None: of every call under way), whether it went well, what it returned or raised.
_Answer = tuple[int | None, bool, Any]


class RoleError(RunError):
    """A role's process died, or a call passed its deadline; `role` is its name."""

    def __init__(self, role: str, message: str) -> None:
        super().__init__(message)
        self.role = role


@dataclass(frozen=True)
class RoleSpec:
    """What a role is started from, wherever it will live.

    name: the role's name in the graph ("trainer", "reference", "sampler"), or "reward" or "environment".
    kind: of the table of kinds: "trainer", "sampler", "reward_manager", "environment".
    start: makes the service, in the process where it will live; it holds folders and options, never a loaded model.
    deadline: seconds that one call may take.
    """

    name: str
    kind: str
    start: Callable[[], Any]
    deadline: float = 3600.0


class ProcessHandle:
    """A role in a process of its own. `call` asks it; `attributes` are those of the service after the last answer.

    Args:
        attributes: names of attributes that every answer brings with it.
        functions: calls carry components, which may have to travel by value; looking for these takes milliseconds.

    Raises ConfigError for a spec that cannot be pickled, naming the field, and what the role's start raises.
    """

    def __init__(self, spec: RoleSpec, attributes: tuple[str, ...] = (), *, functions: bool = False) -> None:
        self.spec, self._functions = spec, functions
        self.attributes: dict[str, Any] = {}
        self.sent_messages = self.sent_bytes = 0
        self._pending: dict[int, tuple[str, float, Future[Any] | asyncio.Future[Any]]] = {}
        self._numbers = itertools.count()
        self._gathered: list[_Call] = []
        self._lock = threading.Lock()
        self._closed = False
        data = _pickled(spec)
        ours, theirs = socket.socketpair()
        # A role that no longer reads must not hold the run for longer than one that does not answer.
        seconds, rest = divmod(min(spec.deadline, _LONGEST), 1)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(seconds), int(rest * 1e6)))
        command = [sys.executable, "-m", "rlcore.execute.process", str(theirs.fileno()), str(os.getpid())]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self._socket = ours
        # A run that is dropped without `close` leaves no process behind.
        self._end = weakref.finalize(self, _end, self.process, ours)
        threading.Thread(target=_read_answers, args=(weakref.ref(self), ours), daemon=True).start()
        _send(ours, self._lock, pickle.dumps((sys.path, attributes)))
        started: Future[Any] = Future()
        self._expect("start", started)
        self._write(data)
        self._result(started, "start")

    def call(self, method: str, *arguments: Any, **options: Any) -> Future[Any]:
        """Ask for a method of the service; the future holds what it returns or raises.

        Raises RoleError where the process is gone.
        """
        future: Future[Any] = Future()
        data = self._pickled([(self._expect(method, future), method, arguments, options)])
        self._write(data)
        return future

    def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method and wait for what it returns. Raises RoleError past the deadline."""
        return self._result(self.call(method, *arguments, **options), method)

    async def ask_async(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method and await what it returns; a cancelled caller cancels the call. Of one event loop alone."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        number = self._expect(method, future)
        self._gather(loop, (number, method, arguments, options))
        late = loop.call_later(self.spec.deadline, lambda: _settle([(future, False, self._late(method))]))
        try:
            return await future
        except asyncio.CancelledError:
            self._gather(loop, (number, None, (), {}))
            raise
        finally:
            late.cancel()
            self._pending.pop(number, None)

    def _gather(self, loop: asyncio.AbstractEventLoop, call: _Call) -> None:
        if not self._gathered:
            loop.call_soon(self._flush)
        self._gathered.append(call)

    def _flush(self) -> None:
        """Send the calls that were gathered. One that cannot be pickled fails alone."""
        calls, self._gathered = self._gathered, []
        try:
            data = self._pickled(calls)
        except Exception:  # noqa: BLE001 - whoever asked is told
            kept = []
            for call in calls:
                try:
                    self._pickled([call])
                    kept.append(call)
                except Exception as error:  # noqa: BLE001 - whoever asked is told
                    self._answered([(call[0], False, error)])
            data = self._pickled(kept)
        try:
            self._write(data)
        except RoleError as error:
            self._answered([(None, False, error)])

    def _pickled(self, calls: list[_Call]) -> bytes:
        return dumps(calls) if self._functions else pickle.dumps(calls, protocol=5)

    def close(self) -> None:
        """End the process; calls under way are lost."""
        self._closed = True
        self._end()

    def _expect(self, method: str, future: Future[Any] | asyncio.Future[Any]) -> int:
        number = next(self._numbers)
        self._pending[number] = (method, time.monotonic(), future)
        return number

    def _write(self, data: bytes) -> None:
        self.sent_messages += 1
        self.sent_bytes += len(data)
        try:
            _send(self._socket, self._lock, data)
        except BlockingIOError:
            self.close()
            raise self._late("what was sent to it") from None
        except OSError:
            raise self._gone() from None

    def _result(self, future: Future[Any], method: str) -> Any:
        try:
            return future.result(self.spec.deadline)
        except TimeoutError:
            if future.done():
                raise
            raise self._late(method) from None

    def _answered(self, answers: list[_Answer]) -> None:
        """Give answers to those who wait: to all who wait in an event loop in one turn of it."""
        awaited: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], bool, Any]]] = {}
        for answered, right, value in answers:
            for number in [answered] if answered is not None else list(self._pending):
                _, _, future = self._pending.pop(number, (None, None, None))
                if isinstance(future, asyncio.Future):
                    awaited.setdefault(future.get_loop(), []).append((future, right, value))
                elif future is not None:
                    _settle([(future, right, value)])
        for loop, settled in awaited.items():
            with contextlib.suppress(RuntimeError):  # a loop that is closed has nobody who waits
                loop.call_soon_threadsafe(_settle, settled)

    def _lost(self) -> None:
        """Tell everyone who waits that the process is gone."""
        error = self._gone()
        self._answered([(None, False, error)])

    def _gone(self) -> RoleError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        code = self.process.returncode
        ended = "was ended by this run" if self._closed else "has closed its connection"
        if code is not None and not self._closed:
            ended = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
        under_way = ", ".join(f"{m} since {time.monotonic() - s:.1f} s" for m, s, _ in self._pending.values())
        return RoleError(
            self.spec.name,
            f"role {self.spec.name!r} (process {self.process.pid}) {ended} while it did: {under_way or 'nothing'}. "
            f"What the run had saved is kept; go on from its newest checkpoint with resume=",
        )

    def _late(self, method: str) -> RoleError:
        return RoleError(
            self.spec.name,
            f"role {self.spec.name!r} (process {self.process.pid}) has not answered {method!r} within "
            f"execution.deadline={self.spec.deadline:g} seconds. What the run had saved is kept; raise the deadline, "
            f"or look at what hangs",
        )


def _settle(answers: Sequence[tuple[Future[Any] | asyncio.Future[Any], bool, Any]]) -> None:
    for future, right, value in answers:
        if future.done():
            continue
        if right:
            future.set_result(value)
        else:
            future.set_exception(value)


def _pickled(spec: RoleSpec) -> bytes:
    try:
        return dumps(spec)
    except Exception as error:
        raise ConfigError(
            f"role {spec.name!r} cannot live in a process of its own: {_unpicklable(spec.start)} cannot be pickled "
            f"({type(error).__name__}: {error}). Set roles.{spec.name}.execution=local, or hand over what can be "
            f"pickled"
        ) from error


def _unpicklable(start: Any) -> str:
    """Return which argument of a start cannot be pickled."""
    given = {**dict(enumerate(getattr(start, "args", ()))), **getattr(start, "keywords", {})}
    for name, value in given.items():
        try:
            cloudpickle.dumps(value)
        except Exception:  # noqa: BLE001 - that it cannot is what is asked
            inner = getattr(value, "__dict__", {})
            field = next((f for f, each in inner.items() if not _can_pickle(each)), None)
            return f"its {name!r}" + (f" (field {field!r})" if field else "")
    return "its start"


def _can_pickle(value: Any) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:  # noqa: BLE001 - that it cannot is what is asked
        return False
    return True


def _send(channel: socket.socket, lock: threading.Lock, data: bytes) -> None:
    with lock:
        channel.sendall(_HEADER.pack(len(data)))
        channel.sendall(data)


def _receive(channel: socket.socket) -> bytes:
    """Return the next message. Raises EOFError where the other side is gone."""
    (size,) = _HEADER.unpack(_receive_exactly(channel, _HEADER.size))
    return bytes(_receive_exactly(channel, size))


def _receive_exactly(channel: socket.socket, size: int) -> bytearray:
    found = bytearray(size)
    view, done = memoryview(found), 0
    while done < size:
        count = channel.recv_into(view[done:])
        if not count:
            raise EOFError
        done += count
    return found


def _read_answers(handle: weakref.ref[ProcessHandle], channel: socket.socket) -> None:
    """Give answers to those who wait, until the process is gone."""
    while True:
        try:
            message = _receive(channel)
        except (EOFError, OSError):
            break
        try:
            answers, attributes = pickle.loads(message)  # noqa: S301 - from this run's own process
        except Exception as error:  # noqa: BLE001 - whose it is cannot be read: everyone who asked is told
            answers, attributes = [(None, False, error)], {}
        held = handle()
        if held is None:
            return
        held.attributes |= attributes
        held._answered(answers)  # noqa: SLF001 - the other half of the class
        del held
    held = handle()
    if held is not None:
        held._lost()  # noqa: SLF001 - the other half of the class


def _end(process: subprocess.Popen[bytes], channel: socket.socket) -> None:
    with contextlib.suppress(OSError):
        channel.shutdown(socket.SHUT_RDWR)
    channel.close()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# -- the other side


GATHER = 0.01
"""Seconds for which answers are gathered into one message: how many there are depends on time, not on rows."""


class _Worker:
    """Answers the calls that come over the socket, until it is closed."""

    def __init__(self, channel: socket.socket, service: Any, attributes: tuple[str, ...]) -> None:
        self.channel, self.service, self.names = channel, service, attributes
        self.lock = threading.Lock()
        self.loop = asyncio.new_event_loop()
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.answers: list[_Answer] = []
        self.flushing = False

    def run(self) -> None:
        threading.Thread(target=self.read, daemon=True).start()
        self.loop.run_forever()

    def read(self) -> None:
        while True:
            try:
                message = _receive(self.channel)
            except (EOFError, OSError):
                os._exit(0)
            self.loop.call_soon_threadsafe(self.begin_all, message)

    def begin_all(self, message: bytes) -> None:
        try:
            calls = pickle.loads(message)  # noqa: S301 - from this run's own process
        except Exception as error:  # noqa: BLE001 - whose it is cannot be read: everyone who asked is told
            self.answer(None, False, error)
            self.flush()
            return
        for call in calls:
            self.begin(*call)

    def begin(self, number: int, method: str | None, arguments: Any, options: Any) -> None:
        if method is None:
            if number in self.tasks:
                self.tasks[number].cancel()
            return
        try:
            function = getattr(self.service, method)
            if inspect.iscoroutinefunction(function):
                self.tasks[number] = self.loop.create_task(self.await_(number, function, arguments, options))
                return
            self.answer(number, True, function(*arguments, **options))
        except BaseException as error:  # noqa: BLE001 - whoever asked is told
            self.answer(number, False, error)
        self.flush()

    async def await_(self, number: int, function: Any, arguments: Any, options: Any) -> None:
        try:
            self.answer(number, True, await function(*arguments, **options))
        except asyncio.CancelledError as error:
            # Whoever cancelled the call waits for nothing; a service that cancels itself leaves one who waits.
            if not self.tasks[number].cancelling():
                self.answer(number, False, RunError(f"{function.__qualname__} cancelled itself ({error!r})"))
        except BaseException as error:  # noqa: BLE001 - whoever asked is told
            self.answer(number, False, error)
        finally:
            self.tasks.pop(number, None)
        if not self.flushing:
            self.flushing = True
            self.loop.call_later(0 if not self.tasks else GATHER, self.flush)

    def answer(self, number: int | None, right: bool, value: Any) -> None:
        self.answers.append((number, right, value if right else _portable(value)))

    def flush(self) -> None:
        self.flushing = False
        if self.answers:
            answers, self.answers = self.answers, []
            attributes = {name: getattr(self.service, name) for name in self.names}
            try:
                data = _message_pickled((answers, attributes))
            except Exception:  # noqa: BLE001 - what cannot travel is told to the one who asked for it
                data = _message_pickled(([_that_travels(answer) for answer in answers], attributes))
            _send(self.channel, self.lock, data)


def _message_pickled(message: Any) -> bytes:
    try:
        return pickle.dumps(message, protocol=5)
    except Exception:  # noqa: BLE001 - plugins' own values may be anything
        return cloudpickle.dumps(message)


def _that_travels(answer: _Answer) -> _Answer:
    """Return the answer, or in place of one that cannot be pickled the error that says so."""
    number, _, value = answer
    try:
        _message_pickled(value)
    except Exception as error:  # noqa: BLE001 - whoever asked is told
        found = f"{type(value).__name__}, which cannot be pickled ({type(error).__name__}: {error})"
        return number, False, RunError(f"the role answered with a {found}")
    return answer


def _portable(error: BaseException) -> BaseException:
    """Return an error that can be pickled and shows where it was raised."""
    text = "".join(traceback.format_exception(error)).rstrip()
    try:
        known = pickle.loads(pickle.dumps(error))  # noqa: S301 - from this run's own process
    except Exception:  # noqa: BLE001 - errors of plugins may be anything
        known = RuntimeError(f"{type(error).__name__}: {error}")
    known.add_note(f"In the role's own process:\n{text}")
    return known


def _watch_parent(parent: int) -> None:
    """Leave when the run's process is gone, also in the middle of long work."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def main(descriptor: int, parent: int) -> None:
    """Start the role that the run describes over the socket, and answer its calls."""
    # An interrupt of the terminal reaches every process of the run; what follows from it is the run's to say.
    # So does the signal with which batch systems end a group of processes: the run saves first, and this ends after it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()
    channel = socket.socket(fileno=descriptor)
    path, attributes = pickle.loads(_receive(channel))  # noqa: S301 - from this run's own process
    sys.path[:] = path
    data = _receive(channel)
    worker = _Worker(channel, None, ())
    try:
        worker.service = pickle.loads(data).start()  # noqa: S301 - from this run's own process
        worker.names = attributes
        worker.answer(0, True, None)
    except BaseException as error:  # noqa: BLE001 - the run is told
        worker.names = ()
        worker.answer(0, False, error)
    worker.flush()
    worker.run()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
