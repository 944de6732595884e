"""Where rewards run: threads, an event loop and worker processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from rlcore.protocols import Sample
from rlcore_rewards.calling import Caller
from rlcore_rewards.managers.background_loop import BackgroundLoop
from rlcore_workers import Workers


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
