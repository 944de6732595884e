"""A chat endpoint asked until it answers: a failure that may pass is tried again, any other is an error at once."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rlcore.errors import ConfigError, RewardError, nearest
from rlcore_rewards.calling import UnscoredError
from rlcore_rewards.retry import backoff, is_transient, retry_after

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


@dataclass(frozen=True)
class JudgeService:
    """The address, model and parameters of a judge: plain data that can be pickled."""

    url: str
    model: str
    key_variable: str | None
    parameters: Mapping[str, Any]
    seconds: float
    total_tokens: int | None

    @property
    def name(self) -> str:
        """Return the judge as messages name it."""
        return f"judge {self.model!r} at {self.url}"

    def key(self) -> str:
        """Return the key from this process's environment. Raises ConfigError if it is missing or unusable."""
        if self.key_variable is None:
            return NO_KEY
        key = os.environ.get(self.key_variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            state = "is not set" if not key else "holds what no header can carry"
            raise ConfigError(f"reward.key_variable={self.key_variable}: that environment variable {state}")
        return key

    def client(self) -> dict[str, Any]:
        """Return what a client of the openai package is made of.

        It tries nothing again by itself: its attempts would count in no limit, its waits are not random enough to part
        requests that failed together, and its time limit is one of each read.
        """
        return dict(base_url=self.url, api_key=self.key(), timeout=self.seconds, max_retries=0)

    def check(self) -> None:
        """Ask the endpoint for its models, once. Raises RewardError if nothing answers, or this model is not there."""
        import openai

        try:
            with openai.OpenAI(**self.client()) as client:
                listed = [str(model.id) for model in client.models.list()]
        except openai.APIStatusError as error:
            if error.status_code >= 500 or error.status_code in (401, 403):
                raise self._unreachable(error) from None
            log.info("%s lists no models (HTTP %d): the model's name is not checked", self.name, error.status_code)
            return
        except Exception as error:  # noqa: BLE001 what is not the client's comes out of failure_of as it is
            raise self._unreachable(error) from None
        if self.model not in listed:
            known = ", ".join(listed[:20]) or "none"
            raise RewardError(f"{self.name}: no such model there; models: {known}.{nearest(self.model, listed)}")

    def _unreachable(self, error: Exception) -> RewardError:
        why = classify_failure(error, self.seconds, secret=self.key()).why
        return RewardError(f"{self.name} does not answer (asked {self.url}/models once): {why}")


@dataclass
class JudgeUsage:
    """Counts of requests, answers and tokens so far, and the monotonic time until which the server asks to wait."""

    requests: int = 0
    answers: int = 0
    tokens: int = 0
    paused_until: float = 0.0


class Endpoint:
    """Asks a service for answers, and counts them in `usage`; for one event loop."""

    def __init__(self, service: JudgeService, usage: JudgeUsage) -> None:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        self.service = service
        self.usage = usage
        self.down = False
        # The client's own default closes itself when it is collected, in whatever loop runs then.
        self._client = AsyncOpenAI(**service.client(), http_client=DefaultAsyncHttpxClient())
        self._secret = service.key()

    async def ask(self, messages: Messages) -> JudgeAnswer:
        """Return the answer to messages.

        Raises:
            UnscoredError: none in all attempts, a refusal, or no tokens left; it says what was tried and how often.
                After one question that found nobody each further one is tried once, until there is an answer.
        """
        service, begin, tried, down = self.service, time.monotonic(), Counter[str](), True
        attempts = 1 if self.down else ATTEMPTS
        for attempt in range(1, attempts + 1):
            outcome = await self._attempt(messages)
            if isinstance(outcome, JudgeAnswer):
                self.down = False
                return outcome
            tried[outcome.why] += 1
            down = outcome.down
            if not outcome.passing:
                raise UnscoredError(f"{service.name} refused (attempt {attempt}): {outcome.why}")
            if outcome.wait is not None:
                if outcome.wait > LONGEST_PAUSE:
                    raise UnscoredError(
                        f"{service.name} asks to wait for {outcome.wait:.0f} s (at most {LONGEST_PAUSE:.0f} are"
                        f" waited): {outcome.why}"
                    )
                self.usage.paused_until = max(self.usage.paused_until, time.monotonic() + outcome.wait)
            if attempt < attempts:
                await asyncio.sleep(backoff(attempt) if outcome.wait is None else outcome.wait)
        self.down = down
        causes = "; ".join(f"{why} ({count} times)" if count > 1 else why for why, count in tried.items())
        raise UnscoredError(
            f"{service.name} gave no answer in {attempts} attempt{'s' * (attempts > 1)} over"
            f" {time.monotonic() - begin:.1f} s: {causes}"
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _attempt(self, messages: Messages) -> JudgeAnswer | AttemptFailure:
        service, usage = self.service, self.usage
        # The server asked one request to wait, and means all.
        while (wait := usage.paused_until - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        if service.total_tokens is not None and usage.tokens >= service.total_tokens:
            raise UnscoredError(
                f"reward.total_tokens={service.total_tokens} is used up: {usage.tokens} tokens in {usage.answers}"
                f" answers; nothing more is asked"
            )
        usage.requests += 1
        try:
            async with asyncio.timeout(service.seconds):
                response = await self._client.chat.completions.create(
                    model=service.model, messages=list(messages), extra_body=dict(service.parameters)
                )
        except Exception as error:  # noqa: BLE001 what it is decides whether it is tried again
            return classify_failure(error, service.seconds, secret=self._secret)
        try:
            choice = response.choices[0]
            answer = JudgeAnswer(choice.message.content or "", choice.finish_reason == "length")
        except (AttributeError, IndexError, TypeError):
            return AttemptFailure(f"no chat completion: {str(response)[:200]!r}".replace(self._secret, "***"), True)
        tokens = getattr(response.usage, "total_tokens", None)
        if tokens is None and service.total_tokens is not None:
            raise UnscoredError(
                f"{service.name} reports no usage.total_tokens, which reward.total_tokens counts; set it to null"
            )
        usage.tokens += tokens or 0
        usage.answers += 1
        return answer


def classify_failure(error: Exception, seconds: float, *, secret: str) -> AttemptFailure:
    """Return what an exception of the client means. The key is nowhere in it, even if the server sent it back.

    Raises the exception itself if it is none of the client's, the network's or of unreadable JSON.
    """
    import openai

    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return AttemptFailure(f"no answer within {seconds:g} s", True)
    if isinstance(error, openai.APIStatusError):
        message = str(error.message).replace(secret, "***") if secret != NO_KEY else str(error.message)
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
