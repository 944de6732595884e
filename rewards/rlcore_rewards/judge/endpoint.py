"""A chat endpoint asked until it answers: a failure that may pass is tried again, any other is an error at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlcore.errors import ConfigError, RewardError, nearest
from rlcore_rewards.calling import UnscoredError
from rlcore_rewards.retry import backoff, is_transient, retry_after
from rlcore_workers import ProcessState

log = logging.getLogger("rlcore")

Messages = Sequence[Mapping[str, str]]
ATTEMPTS = 5
"""How often one answer is asked for while the endpoint fails."""
LONGEST_PAUSE = 300.0
"""Seconds that a server may ask to wait (`Retry-After`); one that asks for more is not waited for."""
NO_KEY = "none"
"""Sent where no key is named. The client would otherwise take OPENAI_API_KEY, and send it to whatever server it is."""


class JudgeAnswer(NamedTuple):
    """The text of an answer, and whether it ended at `max_tokens`."""

    text: str
    truncated: bool


class AttemptFailure(NamedTuple):
    """Why an attempt gave nothing: in words, whether another may help, how long the server asks to wait.

    `down`: nobody answered, or a server that fails; one that has too much to do does answer.
    """

    why: str
    passing: bool
    wait: float | None = None
    down: bool = True


class Endpoint(ProcessState):
    """The address, model and limits of a judge, which can be pickled, and the counts of what it was asked here.

    `requests`, `answers` and `tokens` are counted from the start of each process.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key_variable: str | None,
        parameters: Mapping[str, Any],
        seconds: float,
        total_tokens: int | None,
    ) -> None:
        self.url, self.model, self.key_variable = url, model, key_variable
        self.parameters, self.seconds, self.total_tokens = parameters, seconds, total_tokens
        self.name = f"judge {model!r} at {url}"
        self._begin()

    def _begin(self) -> None:
        self.requests = self.answers = self.tokens = 0
        self._paused_until = 0.0  # the monotonic time until which the server asks to wait
        self._down = False
        self._client: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def key(self) -> str:
        """Return the key from this process's environment. Raises ConfigError if it is missing or unusable."""
        if self.key_variable is None:
            return NO_KEY
        key = os.environ.get(self.key_variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            state = "is not set" if not key else "holds what no header can carry"
            raise ConfigError(f"reward.key_variable={self.key_variable}: that environment variable {state}")
        return key

    def client_options(self) -> dict[str, Any]:
        """Return what a client of the openai package is made of.

        It tries nothing again by itself: its attempts would count in no limit, its waits are not random enough to part
        requests that failed together, and its time limit is one of each read.
        """
        return dict(base_url=self.url, api_key=self.key(), timeout=self.seconds, max_retries=0)

    def check(self) -> None:
        """Ask the endpoint for its models, once. Raises RewardError if nothing answers, or this model is not there."""
        import openai

        try:
            with openai.OpenAI(**self.client_options()) as client:
                listed = [str(model.id) for model in client.models.list()]
        except Exception as error:  # noqa: BLE001 what it is decides what is said
            status = error.status_code if isinstance(error, openai.APIStatusError) else 500
            if status >= 500 or status in (401, 403):
                # What is none of the client's errors comes out of classify_failure as it is.
                why = self.classify_failure(error).why
                raise RewardError(f"{self.name} does not answer (asked {self.url}/models once): {why}") from None
            log.info("%s lists no models (HTTP %d): the model's name is not checked", self.name, status)
            return
        if self.model not in listed:
            known = ", ".join(listed[:20]) or "none"
            raise RewardError(f"{self.name}: no such model there; models: {known}.{nearest(self.model, listed)}")

    async def ask(self, messages: Messages) -> JudgeAnswer:
        """Return the answer to messages.

        Raises:
            UnscoredError: none in all attempts, a refusal, or no tokens left; it says what was tried and how often.
                After one question that found nobody each further one is tried once, until there is an answer.
        """
        begin, tried, down = time.monotonic(), Counter[str](), True
        attempts = 1 if self._down else ATTEMPTS
        for attempt in range(1, attempts + 1):
            outcome = await self._attempt(messages)
            if isinstance(outcome, JudgeAnswer):
                self._down = False
                return outcome
            tried[outcome.why] += 1
            down = outcome.down
            if not outcome.passing:
                raise UnscoredError(f"{self.name} refused (attempt {attempt}): {outcome.why}")
            if outcome.wait is not None:
                if outcome.wait > LONGEST_PAUSE:
                    raise UnscoredError(
                        f"{self.name} asks to wait for {outcome.wait:.0f} s (at most {LONGEST_PAUSE:.0f} are"
                        f" waited): {outcome.why}"
                    )
                self._paused_until = max(self._paused_until, time.monotonic() + outcome.wait)
            if attempt < attempts:
                await asyncio.sleep(backoff(attempt) if outcome.wait is None else outcome.wait)
        self._down = down
        causes = "; ".join(f"{why} ({count} times)" if count > 1 else why for why, count in tried.items())
        raise UnscoredError(
            f"{self.name} gave no answer in {attempts} attempt{'s' * (attempts > 1)} over"
            f" {time.monotonic() - begin:.1f} s: {causes}"
        )

    def close(self) -> None:
        """Close the connections. The endpoint can be asked again."""
        if self._client is not None and self._loop is not None and self._loop.is_running():
            # A loop that some other reward blocks never closes them: they end with the process then.
            with contextlib.suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result(timeout=5)
        self._client = self._loop = None

    def _client_here(self) -> Any:
        """Return the client of the running loop: its connections belong to one."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            from openai import AsyncOpenAI, DefaultAsyncHttpxClient

            # The client's own default closes itself when it is collected, in whatever loop runs then.
            self._client = AsyncOpenAI(**self.client_options(), http_client=DefaultAsyncHttpxClient())
            self._loop, self._down = loop, False
        return self._client

    async def _attempt(self, messages: Messages) -> JudgeAnswer | AttemptFailure:
        # The server asked one request to wait, and means all.
        while (wait := self._paused_until - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        if self.total_tokens is not None and self.tokens >= self.total_tokens:
            raise UnscoredError(
                f"reward.total_tokens={self.total_tokens} is used up: {self.tokens} tokens in {self.answers}"
                f" answers; nothing more is asked"
            )
        client = self._client_here()
        self.requests += 1
        try:
            async with asyncio.timeout(self.seconds):
                response = await client.chat.completions.create(
                    model=self.model, messages=list(messages), extra_body=dict(self.parameters)
                )
        except Exception as error:  # noqa: BLE001 what it is decides whether it is tried again
            return self.classify_failure(error)
        try:
            choice = response.choices[0]
            answer = JudgeAnswer(choice.message.content or "", choice.finish_reason == "length")
        except (AttributeError, IndexError, TypeError):
            return AttemptFailure(f"no chat completion: {str(response)[:200]!r}".replace(self.key(), "***"), True)
        tokens = getattr(response.usage, "total_tokens", None)
        if tokens is None and self.total_tokens is not None:
            raise UnscoredError(
                f"{self.name} reports no usage.total_tokens, which reward.total_tokens counts; set it to null"
            )
        self.tokens += tokens or 0
        self.answers += 1
        return answer

    def classify_failure(self, error: Exception) -> AttemptFailure:
        """Return what an exception of the client means. The key is nowhere in it, even if the server sent it back.

        Raises the exception itself if it is none of the client's, the network's or of unreadable JSON.
        """
        import openai

        if isinstance(error, TimeoutError | openai.APITimeoutError):
            return AttemptFailure(f"no answer within {self.seconds:g} s", True)
        if isinstance(error, openai.APIStatusError):
            message = str(error.message)
            if self.key_variable is not None:
                message = message.replace(self.key(), "***")
            passing = is_transient(error.status_code) and error.code != "insufficient_quota"
            wait = retry_after(error.response.headers)
            return AttemptFailure(
                f"HTTP {error.status_code}: {message[:300]}", passing, wait, down=error.status_code >= 500
            )
        if isinstance(error, openai.APIConnectionError):
            cause = error.__cause__ or error
            return AttemptFailure(f"no connection: {type(cause).__name__}: {cause}", True)
        if isinstance(error, openai.OpenAIError | ValueError):
            return AttemptFailure(f"an answer that cannot be read: {type(error).__name__}: {str(error)[:200]}", True)
        raise error
