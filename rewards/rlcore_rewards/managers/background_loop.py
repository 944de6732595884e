"""An event loop in a thread of its own, so that coroutines run wherever the caller is, notebooks included."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")
LOOK = 0.5  # seconds between two looks whether the loop still turns


class BlockedError(Exception):
    """The loop does not turn: a coroutine keeps its thread to itself. Says which task."""


class BackgroundLoop:
    """One loop for a whole life: an HTTP client that a reward keeps between calls stays bound to a live loop.

    `free` is for whoever bounds what is in flight, to `most` at a time.
    """

    def __init__(self, most: int = 1) -> None:
        self.loop = asyncio.new_event_loop()
        self.free = asyncio.Semaphore(most)
        self.thread = threading.Thread(target=self.loop.run_forever, name="rlcore-rewards", daemon=True)
        self.thread.start()

    def start(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Return the coroutine's result as a future, at once."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def watch(self, future: Future[Result], seconds: float | None) -> Result:
        """Return the future's result. Raises BlockedError if the loop stands still for so long (1 s at least)."""
        while seconds is not None and not future.done():
            turned = threading.Event()
            self.loop.call_soon_threadsafe(turned.set)
            if not turned.wait(max(seconds, 2 * LOOK)):
                task = asyncio.current_task(self.loop)
                raise BlockedError(task.get_name() if task is not None else "a callback")
            concurrent.futures.wait([future], timeout=LOOK)
        return future.result()

    def close(self) -> None:
        """End the loop and its thread; a thread that a coroutine keeps to itself is left behind."""
        self.abandon()
        self.thread.join(timeout=5)
        if not self.thread.is_alive():
            self.loop.close()

    def abandon(self) -> None:
        """Cancel what runs in the loop, and end it as soon as it turns."""
        self.loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        # What was cancelled needs a few turns to leave what it is in.
        self.loop.call_later(0.01 if tasks else 0, self.loop.stop)
