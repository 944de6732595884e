"""How much a judge may be asked: requests and tokens a minute, and tokens in all."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rlcore_rewards.calling import NotGradedError

MINUTE = 60.0


@dataclass
class Sent:
    """A request: when it was let through, and its tokens (an estimate until its answer is there)."""

    when: float
    tokens: float


class Limits:
    """Lets requests through one by one so that no 60 seconds hold more than allowed; for one event loop.

    The tokens of a request are known when its answer is there. Until then they are taken to be the mean of those
    before it. `total_tokens` is looked at before a request is sent: what is in flight then may pass it.
    """

    def __init__(
        self,
        *,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        total_tokens: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.requests_per_minute = requests_per_minute
        self.tokens_per_minute = tokens_per_minute
        self.total_tokens = total_tokens
        self.requests = self.answers = self.tokens = 0
        self._clock = clock
        self._sleep = sleep
        self._window: deque[Sent] = deque()
        self._paused_until = 0.0

    async def admit(self, estimate: float) -> Sent:
        """Return when a request may be sent; `estimate` is its tokens, if no request was answered before.

        Raises:
            NotGradedError: the tokens in all are used up.
        """
        while True:
            if self.total_tokens is not None and self.tokens >= self.total_tokens:
                raise NotGradedError(
                    f"reward.total_tokens={self.total_tokens} is used up: {self.tokens} tokens in {self.answers}"
                    f" answers; nothing more is asked"
                )
            expected = self.tokens / self.answers if self.answers else estimate
            wait = self._wait(expected)
            if wait <= 0:
                break
            await self._sleep(wait)
        sent = Sent(self._clock(), expected)
        self._window.append(sent)
        self.requests += 1
        return sent

    def answered(self, sent: Sent, tokens: int) -> None:
        """Take the tokens of an answer into account."""
        sent.tokens = tokens
        self.tokens += tokens
        self.answers += 1

    def pause(self, seconds: float) -> None:
        """Let nothing through for so long: the server has said so to one request, and means all."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

    def _wait(self, expected: float) -> float:
        """Seconds until a request may be looked at again; 0 or less: it may go."""
        now = self._clock()
        while self._window and self._window[0].when <= now - MINUTE:
            self._window.popleft()
        wait = self._paused_until - now
        if not self._window:
            # One that is larger than a minute's share goes alone.
            return wait
        oldest = self._window[0].when + MINUTE - now
        if self.requests_per_minute is not None and len(self._window) >= self.requests_per_minute:
            wait = max(wait, oldest)
        if (
            self.tokens_per_minute is not None
            and sum(sent.tokens for sent in self._window) + expected > self.tokens_per_minute
        ):
            wait = max(wait, oldest)
        return wait
