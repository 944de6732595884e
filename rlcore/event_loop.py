"""The event loop that samplers and episodes run in: one thread of this process, apart from a notebook's own loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

from rlcore.errors import RunError

_lock = threading.Lock()
_running: dict[int, asyncio.AbstractEventLoop] = {}  # by process: a forked child has no thread of its parent's


def event_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this process; its thread is started at the first call and ends with the process."""
    with _lock:
        if os.getpid() not in _running:
            loop = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(loop,), name="rlcore-event-loop", daemon=True).start()
            _running[os.getpid()] = loop
        return _running[os.getpid()]


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop for good: an interrupt or exit that a coroutine raises ends the coroutine, not the loop."""
    while True:
        try:
            loop.run_forever()
        except BaseException:  # noqa: BLE001 - it is kept in the coroutine's future, for whoever waits
            continue


def submit(work: Coroutine[Any, Any, Any]) -> Future[Any]:
    """Let a coroutine run in the event loop; return its future."""
    return asyncio.run_coroutine_threadsafe(work, event_loop())


def wait_for(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in the event loop and return its result; an interrupt of the caller cancels it.

    Raises RunError where the event loop itself is asked to wait: a coroutine awaits instead.
    """
    loop = event_loop()
    try:
        within = asyncio.get_running_loop() is loop
    except RuntimeError:
        within = False
    if within:
        work.close()
        raise RunError("a coroutine of the rollout cannot wait for another one here: use `await` instead")
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
