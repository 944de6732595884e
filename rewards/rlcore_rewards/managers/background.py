"""An event loop in a thread of its own, so that coroutines run wherever the caller is, notebooks included."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class BackgroundLoop:
    """One loop for a whole life: an HTTP client that a reward keeps between calls stays bound to a live loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="rlcore-rewards", daemon=True)
        self.thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """What the coroutine returns; blocks the calling thread, never the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def close(self) -> None:
        """End the loop and its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(timeout=5)
        self.loop.close()
