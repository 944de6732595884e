"""The reward that asks a judge for its score."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlcore.data import target_of
from rlcore.errors import ConfigError, DataError
from rlcore_rewards.calling import NotGradedError
from rlcore_rewards.judge.cache import Cache, key_of
from rlcore_rewards.judge.endpoint import Endpoint, Service
from rlcore_rewards.judge.limits import Limits
from rlcore_rewards.judge.prompt import (
    RUBRIC,
    conversation,
    fields_of,
    filled,
    question_of,
    template_of,
)
from rlcore_rewards.judge.reading import Form, NoScoreError, ScoreReader

log = logging.getLogger("rlcore")

OWN_PARAMETERS = ("model", "messages", "stream", "n")


class Judge:
    """The score that a judge gives a completion: a number from `lowest` to `highest`, as the judge said it.

    A completion is data to the judge: braces in it are braces, it stands between two lines whose mark it cannot know,
    and the spelling of special tokens is broken by a space. That keeps it from ending its place in the prompt; it does
    not keep a judge from believing what it reads. Look at the best-scored rollouts.

    The endpoint is asked again after 408, 409, 425, 429, 5xx, a time limit or a lost connection, with exponential
    waits that are halved at random, or after the time that `Retry-After` names, which then holds for all requests. Any
    other refusal is an error at once. An answer without a score is asked for again in the same conversation. What
    stays without a score is an error of its row, which is unscored.

    Args:
        url: where the API begins, as in "http://localhost:8000/v1"; without credentials.
        model: the name that the endpoint knows the judge by.
        key_variable: the environment variable that holds the key; null where none is needed. The key itself is in no
            configuration, log, error or pickle.
        template: "quality", "reference" (which shows `target`), or a text with fields: `{completion}`, `{question}`
            (the data's column of that name, else the last user message), `{prompt}` (the whole conversation),
            `{target}`, `{rubric}`.
        rubric: what counts; a row's own `rubric` comes before it.
        form: how the judge answers: "number" (a line `Score: X`) or "json" (an object with `field`).
        field: the field of that object.
        pattern: a regular expression of your own with one group, the number, instead of `Score: X`; the template then
            has to say how to answer.
        lowest: of the range of scores; one out of it is no score.
        highest: likewise.
        temperature: of the judge's sampling; null leaves it to the endpoint.
        max_tokens: of an answer; one that reaches it is cut, and no score is read from it. For an endpoint that knows
            it by another name, null, with that name among `parameters`.
        parameters: what else is sent, such as `{seed: 1}` or `{chat_template_kwargs: {enable_thinking: false}}`.
        seconds: of one request, from its start to the end of its answer.
        attempts: how often one answer is asked for when the endpoint fails.
        readings: how many answers are asked for until one has a score.
        concurrency: requests at a time; the reward manager's `workers` bounds it too.
        requests_per_minute: in any 60 seconds; null for no limit.
        tokens_per_minute: prompt and answer together, likewise.
        total_tokens: after so many, each further row is an error. Requests in flight may pass it.
        cache: a folder for answers, which runs may share: an answer is found again by model, messages and parameters
            (not by the url). Without one they are kept as long as the process lives.
        cache_entries: answers to keep, the newest; 0 keeps none.
        probe: ask the endpoint for its models before the run begins.

    Raises:
        ConfigError: an option that cannot be, no openai package, or no key in the environment.
    """

    bounded = True

    def __init__(
        self,
        *,
        url: str = "",
        model: str = "",
        key_variable: str | None = None,
        template: str = "quality",
        rubric: str = RUBRIC,
        form: Form = "number",
        field: str = "score",
        pattern: str = "",
        lowest: float = 0.0,
        highest: float = 1.0,
        temperature: float | None = 0.0,
        max_tokens: int | None = 1024,
        parameters: Mapping[str, Any] | None = None,
        seconds: float = 60.0,
        attempts: int = 5,
        readings: int = 2,
        concurrency: int = 16,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        total_tokens: int | None = None,
        cache: str | None = None,
        cache_entries: int = 100_000,
        probe: bool = False,
    ) -> None:
        check_place(url, model)
        check_bounds(
            seconds=seconds, attempts=attempts, readings=readings, concurrency=concurrency, max_tokens=max_tokens,
            requests_per_minute=requests_per_minute, tokens_per_minute=tokens_per_minute, total_tokens=total_tokens,
        )  # fmt: skip
        if not lowest < highest:
            raise ConfigError(f"reward.lowest={lowest:g} is not below reward.highest={highest:g}")
        sent = {"temperature": temperature, "max_tokens": max_tokens, **checked_parameters(parameters or {})}
        self.service = Service(
            url=url.rstrip("/"), model=model, key_variable=key_variable, seconds=seconds, attempts=attempts,
            parameters={name: value for name, value in sent.items() if value is not None}, concurrency=concurrency,
        )  # fmt: skip
        self.template, self.rubric = template_of(template), rubric
        self.reader = ScoreReader(form, field, pattern, lowest, highest)
        self.readings = readings
        self.limits: dict[str, Any] = dict(
            requests_per_minute=requests_per_minute, tokens_per_minute=tokens_per_minute, total_tokens=total_tokens
        )
        self.folder = None if cache is None else Path(cache).expanduser().absolute()
        self.cache_entries = cache_entries
        self.probe = probe
        self.service.key()
        self._begin()

    def _begin(self) -> None:
        """Have nothing yet of what is made where the judge is used."""
        self._limits = Limits(**self.limits)
        self._cache: Cache | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._endpoint: Endpoint | None = None
        self._asking: dict[str, asyncio.Task[dict[str, Any]]] = {}
        self._from_cache = 0

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def check_row(self, data: Mapping[str, Any]) -> None:
        """Raise DataError if the template names what this row has not got; the first row asked starts the probe.

        Raises:
            RewardError: the probe finds no endpoint, or not this model there.
        """
        if self.probe:
            self.service.probe()
            self.probe = False
        self._check_target(target_of(data))

    async def __call__(
        self,
        completion: str,
        prompt: str,
        messages: Sequence[Mapping[str, Any]] | None = None,
        question: Any = None,
        target: Any = None,
        rubric: Any = None,
    ) -> dict[str, Any]:
        """Return `score`, and as `extracted` the piece of the judge's answer that it was read from.

        Raises:
            NotGradedError: no answer, none with a score, or no tokens left.
            DataError: the template shows `target` and there is none.
        """
        self._check_target(target)
        shown = {
            "question": question_of(prompt, messages) if question is None else question,
            "prompt": conversation(prompt, messages),
            "completion": completion,
            "target": target,
            "rubric": self.rubric if rubric is None else rubric,
        }
        text = filled(self.template, shown)
        if self.reader.instruction:
            text = f"{text}\n\n{self.reader.instruction}"
        messages_sent = [{"role": "user", "content": text}]
        key = key_of([self.service.model, messages_sent, dict(self.service.parameters)])
        endpoint = self._here()
        kept = self._kept(key)
        if kept is not None:
            self._from_cache += 1
            return kept
        # Equal completions of a group are asked for once, also while the first is in flight.
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.ensure_future(self._grade(endpoint, messages_sent, key))
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return dict(await asyncio.shield(task))

    def close(self) -> None:
        """Close connections and cache, and say what was asked. The judge can be used again."""
        if self._limits.requests:
            log.info(
                "%s: %d requests, %d answers of %d tokens, %d rows from the cache",
                self.service.name,
                self._limits.requests,
                self._limits.answers,
                self._limits.tokens,
                self._from_cache,
            )
        if self._endpoint is not None and self._loop is not None and self._loop.is_running():
            # A loop that some other reward blocks never closes them: they end with the process then.
            with contextlib.suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(self._endpoint.close(), self._loop).result(timeout=5)
        if self._cache is not None:
            self._cache.close()
        self._endpoint = self._loop = self._cache = None

    def _check_target(self, target: Any) -> None:
        if target is None and "target" in fields_of(self.template):
            raise DataError("the judge's template shows {target}, and the row has none")

    def _here(self) -> Endpoint:
        """The endpoint of the running loop: connections, locks and tasks belong to one."""
        loop = asyncio.get_running_loop()
        if self._endpoint is None or self._loop is not loop:
            self._loop, self._endpoint, self._asking = loop, Endpoint(self.service, self._limits), {}
        return self._endpoint

    def _kept(self, key: str) -> dict[str, Any] | None:
        """The score of a kept answer, if there is one that can be read."""
        if not self.cache_entries:
            return None
        if self._cache is None:
            self._cache = Cache(self.folder, self.cache_entries)
        answer = self._cache.get(key)
        if answer is None:
            return None
        try:
            return scored(*self.reader.read(answer))
        except NoScoreError:
            # It was read with another pattern or range; now it is asked for anew.
            return None

    async def _grade(self, endpoint: Endpoint, messages: list[dict[str, str]], key: str) -> dict[str, Any]:
        """The score of the first answer that has one; an answer without is answered by what is missing in it."""
        said = list(messages)
        how = self.reader.instruction or "Answer as you were told to."
        for _ in range(self.readings):
            answer = await endpoint.ask(said)
            try:
                if answer.cut:
                    raise NoScoreError("the answer is cut at max_tokens")
                found = self.reader.read(answer.text)
            except NoScoreError as error:
                why = str(error)
                said += [
                    {"role": "assistant", "content": answer.text},
                    {"role": "user", "content": f"No score can be read from this: {why}. {how}"},
                ]
                continue
            if self._cache is not None:
                self._cache.put(key, answer.text)
            return scored(*found)
        raise NotGradedError(
            f"{self.service.name} gave no score in {self.readings} answers; of the last: {why};"
            f" it begins {answer.text[:160]!r} and ends {answer.text[-80:]!r}"
        )


def scored(score: float, piece: str) -> dict[str, Any]:
    """A grade with what it was read from."""
    return {"score": score, "extracted": piece}


def check_place(url: str, model: str) -> None:
    """Raise ConfigError for a url or model that cannot be asked, or without the client."""
    parts = urllib.parse.urlsplit(url)
    if parts.username or parts.password or parts.query or parts.fragment:
        # Not shown: it would be in the log then.
        raise ConfigError("reward.url holds credentials or a query; a key is read from reward.key_variable")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"reward.url={url!r}: expected where the judge's API begins, such as http://localhost:8000/v1"
        )
    if not model:
        raise ConfigError(f"reward.model must be set: the name that {url} knows the judge by")
    if importlib.util.find_spec("openai") is None:
        raise ConfigError("reward=judge needs the openai package: pip install 'rlcore[judge]'")


def check_bounds(**bounds: float | None) -> None:
    """Raise ConfigError for a bound that is not above 0; None is no bound."""
    for name, value in bounds.items():
        if value is not None and not value > 0:
            raise ConfigError(f"reward.{name}={value:g}; allowed: above 0")


def checked_parameters(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters. Raises ConfigError for one that the judge sets itself."""
    for name in OWN_PARAMETERS:
        if name in parameters:
            raise ConfigError(f"reward.parameters.{name} cannot be set: the judge sets {', '.join(OWN_PARAMETERS)}")
    return parameters
