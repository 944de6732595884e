"""A chat endpoint asked until it answers: what passes is tried again, what does not is an error at once."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rlcore.errors import ConfigError, RewardError, nearest
from rlcore_rewards.calling import NotGradedError
from rlcore_rewards.judge.limits import Limits
from rlcore_rewards.retry import backoff, is_passing, retry_after

Messages = Sequence[Mapping[str, str]]
LONGEST_PAUSE = 300.0
"""Seconds that a server may ask to wait (`Retry-After`); one that asks for more is not waited for."""
CHARACTERS_PER_TOKEN = 4
"""A first guess, until the endpoint has said how many tokens a request has."""
NO_KEY = "none"
"""Sent where no key is named. The client would otherwise take OPENAI_API_KEY, and send it to whatever server it is."""


class Answer(NamedTuple):
    """The text of an answer, and whether it was cut at its largest length."""

    text: str
    cut: bool


class Failure(NamedTuple):
    """Why an attempt gave nothing: in words, whether another may help, how long the server asks to wait.

    `down`: nobody answered, or a server that fails; one that has too much to do does answer.
    """

    why: str
    passing: bool
    wait: float | None = None
    down: bool = True


@dataclass(frozen=True)
class Service:
    """Where a judge is and how it is asked: all that can be written in a file."""

    url: str
    model: str
    key_variable: str | None
    parameters: Mapping[str, Any]
    seconds: float
    attempts: int
    concurrency: int

    @property
    def name(self) -> str:
        """The judge as messages name it."""
        return f"judge {self.model!r} at {self.url}"

    def key(self) -> str:
        """The key, from the environment of whoever asks. Raises ConfigError without it, or for one that none can be."""
        if self.key_variable is None:
            return NO_KEY
        key = os.environ.get(self.key_variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            state = "is not set" if not key else "holds what no header can carry"
            raise ConfigError(f"reward.key_variable={self.key_variable}: that environment variable {state}")
        return key

    def client(self) -> dict[str, Any]:
        """What a client of the openai package is made of.

        It tries nothing again by itself: its attempts would count in no limit, its waits are not random enough to part
        requests that failed together, and its time limit is one of each read.
        """
        return dict(base_url=self.url, api_key=self.key(), timeout=self.seconds, max_retries=0)

    def probe(self) -> None:
        """Ask the endpoint for its models, once. Raises RewardError if it does not answer or has not got this one."""
        from openai import OpenAI

        try:
            with OpenAI(**self.client()) as client:
                listed = [str(model.id) for model in client.models.list()]
        except Exception as error:  # noqa: BLE001 what is not the client's comes out of failure_of as it is
            raise RewardError(
                f"{self.name} does not answer (asked {self.url}/models once): "
                f"{failure_of(error, self.seconds, secret=self.key()).why}"
            ) from None
        if self.model not in listed:
            known = ", ".join(listed[:20]) or "none"
            raise RewardError(f"{self.name}: no such model there; models: {known}.{nearest(self.model, listed)}")


class Endpoint:
    """Asks a service within limits, at most `concurrency` requests at a time; for one event loop."""

    def __init__(self, service: Service, limits: Limits) -> None:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        self.service = service
        self.limits = limits
        self.down = False
        # The client's own default closes itself when it is collected, in whatever loop runs then.
        self._client = AsyncOpenAI(**service.client(), http_client=DefaultAsyncHttpxClient())
        self._secret = service.key()
        self._free = asyncio.Semaphore(service.concurrency)

    async def ask(self, messages: Messages) -> Answer:
        """The answer to messages.

        Raises:
            NotGradedError: none in all attempts, a refusal, or no tokens left; it says what was tried and how often.
                After one question that found nobody each further one is tried once, until there is an answer.
        """
        service, begin, tried, down = self.service, time.monotonic(), Counter[str](), True
        attempts = 1 if self.down else service.attempts
        for attempt in range(1, attempts + 1):
            outcome = await self._attempt(messages)
            if isinstance(outcome, Answer):
                self.down = False
                return outcome
            tried[outcome.why] += 1
            down = outcome.down
            if not outcome.passing:
                raise NotGradedError(f"{service.name} refused (attempt {attempt}): {outcome.why}")
            if outcome.wait is not None:
                if outcome.wait > LONGEST_PAUSE:
                    raise NotGradedError(
                        f"{service.name} asks to wait for {outcome.wait:.0f} s (at most {LONGEST_PAUSE:.0f} are"
                        f" waited): {outcome.why}"
                    )
                self.limits.pause(outcome.wait)
            if attempt < attempts:
                await asyncio.sleep(backoff(attempt) if outcome.wait is None else outcome.wait)
        self.down = down
        causes = "; ".join(f"{why} ({count} times)" if count > 1 else why for why, count in tried.items())
        raise NotGradedError(
            f"{service.name} gave no answer in {attempts} attempt{'s' * (attempts > 1)} over"
            f" {time.monotonic() - begin:.1f} s: {causes}"
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _attempt(self, messages: Messages) -> Answer | Failure:
        service = self.service
        async with self._free:
            characters = sum(len(message["content"]) for message in messages)
            sent = await self.limits.admit(characters / CHARACTERS_PER_TOKEN)
            try:
                async with asyncio.timeout(service.seconds):
                    response = await self._client.chat.completions.create(
                        model=service.model, messages=list(messages), extra_body=dict(service.parameters)
                    )
            except Exception as error:  # noqa: BLE001 what it is decides whether it is tried again
                return failure_of(error, service.seconds, secret=self._secret)
            try:
                choice = response.choices[0]
                answer = Answer(choice.message.content or "", choice.finish_reason == "length")
            except (AttributeError, IndexError, TypeError):
                return Failure(f"no chat completion: {str(response)[:200]!r}".replace(self._secret, "***"), True)
            self.limits.answered(sent, self._tokens(response))
            return answer

    def _tokens(self, response: Any) -> int:
        """The tokens that the endpoint counts. Raises NotGradedError if it counts none and a limit needs them."""
        total = getattr(response.usage, "total_tokens", None)
        if total is None and (self.limits.total_tokens is not None or self.limits.tokens_per_minute is not None):
            raise NotGradedError(
                f"{self.service.name} reports no usage.total_tokens, which reward.total_tokens and"
                f" reward.tokens_per_minute count; set both to null"
            )
        return total or 0


def failure_of(error: Exception, seconds: float, *, secret: str) -> Failure:
    """What an exception of the client means. The key is nowhere in it, even if the server sent it back.

    Raises the exception itself if it is none of the client's, the network's or of unreadable JSON.
    """
    import openai

    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return Failure(f"no answer within {seconds:g} s", True)
    if isinstance(error, openai.APIStatusError):
        said = str(error.message).replace(secret, "***") if secret != NO_KEY else str(error.message)
        passing = is_passing(error.status_code) and error.code != "insufficient_quota"
        wait = retry_after(error.response.headers)
        return Failure(f"HTTP {error.status_code}: {said[:300]}", passing, wait, down=error.status_code >= 500)
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__ or error
        return Failure(f"no connection: {type(cause).__name__}: {cause}", True)
    if isinstance(error, openai.OpenAIError | ValueError):
        return Failure(f"an answer that cannot be read: {type(error).__name__}: {str(error)[:200]}", True)
    raise error
