"""Where rewards run: threads, an event loop and worker processes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from rlcore.protocols import Sample
from rlcore_rewards.calling import Caller
from rlcore_workers import Workers

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


class RewardHost:
    """The threads, the event loop and the worker processes that rewards run in, each started at first use."""

    def __init__(
        self,
        *,
        workers: int,
        seconds: float | None,
        isolate: bool,
        failed: Callable[[Caller, Sample, int, BaseException], None],
    ) -> None:
        self.workers, self.seconds, self.isolate = workers, seconds, isolate
        self.scored = False  # whether any row ever was
        self.failed = failed
        self.processes = Workers(processes=workers, seconds=seconds)
        self._threads: ThreadPoolExecutor | None = None
        self._loop: BackgroundLoop | None = None
        self._making = threading.Lock()

    @property
    def threads(self) -> ThreadPoolExecutor:
        """Return the threads that functions of this process run in."""
        with self._making:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="rlcore-rewards")
            return self._threads

    @property
    def loop(self) -> BackgroundLoop:
        """Return the loop that coroutines run in, made at first use by whichever thread comes first."""
        with self._making:
            if self._loop is None:
                self._loop = BackgroundLoop(self.workers)
            return self._loop

    def abandon(self, loop: BackgroundLoop) -> None:
        """Give up a loop that a coroutine blocks; the next call starts another."""
        with self._making:
            if self._loop is loop:
                self._loop = None
                loop.abandon()

    def close(self) -> None:
        """End the threads, the loop and the processes. They can be used again."""
        with self._making:
            threads, loop = self._threads, self._loop
            self._threads = self._loop = None
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)
        if loop is not None:
            loop.close()
        self.processes.close()
