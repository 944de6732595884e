"""The reward that asks a judge for its score."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import logging
import sqlite3
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlcore.data import target_of
from rlcore.errors import ConfigError, DataError
from rlcore_rewards.calling import UnscoredError, check_positive
from rlcore_rewards.judge.endpoint import Endpoint
from rlcore_rewards.judge.prompt import (
    RUBRIC,
    NoScoreError,
    ScoreReader,
    conversation,
    fill,
    find_template,
    last_question,
    template_fields,
)
from rlcore_workers import ProcessState

log = logging.getLogger("rlcore")

OWN_PARAMETERS = ("model", "messages", "stream", "n")
PARAMETERS: Mapping[str, Any] = {"temperature": 0.0, "max_tokens": 1024}
READINGS = 2
"""How many answers are asked for until one has a score."""
CACHE_ENTRIES = 100_000


class Judge(ProcessState):
    """Return the score that a judge gives a completion: a number in `score_range`, as the judge wrote it.

    A completion is data to the judge: braces in it are braces, it stands between two lines whose mark it cannot know,
    and the spelling of special tokens is broken by a space. That keeps it from ending its place in the prompt; it does
    not keep a judge from believing what it reads. Look at the best-scored rollouts.

    The judge is asked to end with a line `Score: X`; a JSON object with `score` does too. The endpoint is asked again,
    five times in all, after 408, 409, 425, 429, 5xx, a time limit or a lost connection, with exponential waits that are
    halved at random, or after the time that `Retry-After` names, which then holds for all requests. Any other refusal
    is an error at once. An answer without a score is asked for once again in the same conversation. What stays without
    a score is an error of its row, which is unscored. Before the first rollout the endpoint is asked for its models.

    As many requests are under way as the reward manager has `workers`. A server that allows so many requests or tokens
    a minute says so by 429 and `Retry-After`, which is obeyed; scores of another range or sign are made by the weights
    of `weighted`; a form of answer of your own is a template that ends in `Score: X`.

    Args:
        url: where the API begins, as in "http://localhost:8000/v1"; without credentials.
        model: the name that the endpoint knows the judge by.
        key_variable: the environment variable that holds the key; null where none is needed. The key itself is in no
            configuration, log, error or pickle.
        template: "quality", "reference" (which shows `target`), or a text with fields: `{completion}`, `{question}`
            (the data's column of that name, else the last user message), `{prompt}` (the whole conversation),
            `{target}`, `{rubric}`.
        rubric: what counts; a row's own `rubric` comes before it.
        score_range: the lowest and the highest score; a number out of it is no score.
        parameters: what is sent besides, such as `{seed: 1}` or `{chat_template_kwargs: {enable_thinking: false}}`,
            over `{temperature: 0, max_tokens: 1024}`; null takes one of these out. An answer that reaches `max_tokens`
            is truncated, and no score is read from it.
        seconds: the longest that one request may take, from its start to the end of its answer.
        total_tokens: after so many, prompts and answers together, each further row is an error. Requests in flight may
            pass it.
        cache: a folder for the newest 100,000 answers, which runs may share: an answer is found again by model,
            messages and parameters (not by the url). Without one they are kept as long as the process lives.

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
        score_range: tuple[float, float] = (0.0, 1.0),
        parameters: Mapping[str, Any] | None = None,
        seconds: float = 60.0,
        total_tokens: int | None = None,
        cache: str | None = None,
    ) -> None:
        check_endpoint(url, model)
        check_positive(seconds=seconds, total_tokens=total_tokens)
        lowest, highest = score_range
        if not lowest < highest:
            raise ConfigError(f"reward.score_range=[{lowest:g}, {highest:g}]: the lowest is not below the highest")
        sent = merge_parameters(parameters or {})
        self.endpoint = Endpoint(
            url.rstrip("/"),
            model,
            key_variable=key_variable,
            parameters=sent,
            seconds=seconds,
            total_tokens=total_tokens,
        )
        self.template, self.rubric = find_template(template), rubric
        self.reader = ScoreReader(lowest, highest)
        self.folder = None if cache is None else Path(cache).expanduser().absolute()
        self.endpoint.key()
        self._begin()

    def _begin(self) -> None:
        self._cache: AnswerCache | None = None
        self._asking: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Task[dict[str, Any]]] = {}
        self._from_cache = 0
        self._checked = False

    def check_row(self, data: Mapping[str, Any]) -> None:
        """Raise DataError if the template names what this row lacks; with the first row, ask the endpoint as well.

        Raises:
            RewardError: nothing answers at the url, or the model is not there.
        """
        self._check_target(target_of(data))
        if not self._checked:
            self.endpoint.check()
            self._checked = True

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
            UnscoredError: no answer, none with a score, or no tokens left.
            DataError: the template shows `target` and there is none.
        """
        self._check_target(target)
        values = {
            "question": last_question(prompt, messages) if question is None else question,
            "prompt": conversation(prompt, messages),
            "completion": completion,
            "target": target,
            "rubric": self.rubric if rubric is None else rubric,
        }
        text = f"{fill(self.template, values)}\n\n{self.reader.instruction}"
        request = [{"role": "user", "content": text}]
        sent = [self.endpoint.model, request, dict(self.endpoint.parameters)]
        key = hashlib.sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest()
        kept = self._cached_score(key)
        if kept is not None:
            self._from_cache += 1
            return kept
        # Equal completions of a group are asked for once, also while the first is in flight.
        here = (asyncio.get_running_loop(), key)
        task = self._asking.get(here)
        if task is None:
            task = self._asking[here] = asyncio.ensure_future(self._grade(request, key))
            task.add_done_callback(lambda _: self._asking.pop(here, None))
        return dict(await asyncio.shield(task))

    def close(self) -> None:
        """Close connections and cache, and log what was asked. The judge can be used again."""
        asked = self.endpoint
        if asked.requests:
            log.info(
                "%s: %d requests, %d answers of %d tokens, %d rows from the cache",
                *(asked.name, asked.requests, asked.answers, asked.tokens, self._from_cache),
            )
        asked.close()
        if self._cache is not None:
            self._cache.close()
        self._cache = None

    def _check_target(self, target: Any) -> None:
        if target is None and "target" in template_fields(self.template):
            raise DataError("the judge's template shows {target}, and the row has none")

    def _cached_score(self, key: str) -> dict[str, Any] | None:
        """Return the score of a kept answer, if there is one that can be read."""
        if self._cache is None:
            self._cache = AnswerCache(self.folder, CACHE_ENTRIES)
        answer = self._cache.get(key)
        if answer is None:
            return None
        try:
            score, piece = self.reader.read(answer)
        except NoScoreError:
            # It was read with another range; now it is asked for anew.
            return None
        return {"score": score, "extracted": piece}

    async def _grade(self, messages: list[dict[str, str]], key: str) -> dict[str, Any]:
        """Return the score of the first answer that has one; an answer without is answered by what is missing in it."""
        asked = list(messages)
        for _ in range(READINGS):
            answer = await self.endpoint.ask(asked)
            try:
                if answer.truncated:
                    raise NoScoreError("the answer is truncated at max_tokens")
                score, piece = self.reader.read(answer.text)
            except NoScoreError as error:
                why = str(error)
                question = f"No score can be read from this: {why}. {self.reader.instruction}"
                asked += [{"role": "assistant", "content": answer.text}, {"role": "user", "content": question}]
                continue
            if self._cache is not None:
                self._cache.put(key, answer.text)
            return {"score": score, "extracted": piece}
        raise UnscoredError(
            f"{self.endpoint.name} gave no score in {READINGS} answers; of the last: {why};"
            f" it begins {answer.text[:160]!r} and ends {answer.text[-80:]!r}"
        )


def check_endpoint(url: str, model: str) -> None:
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


def merge_parameters(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is sent besides, defaults included. Raises ConfigError for one that the judge sets itself."""
    for name in OWN_PARAMETERS:
        if name in parameters:
            raise ConfigError(f"reward.parameters.{name} cannot be set: the judge sets {', '.join(OWN_PARAMETERS)}")
    return {name: value for name, value in {**PARAMETERS, **parameters}.items() if value is not None}


class AnswerCache:
    """Keeps the newest `entries` answers by key. Runs may share a folder; without one it ends with the process.

    For one caller at a time, whatever its thread.
    """

    def __init__(self, folder: Path | None, entries: int) -> None:
        self.entries = entries
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        where = ":memory:" if folder is None else folder / "judge.sqlite"
        self._database = sqlite3.connect(where, timeout=30, isolation_level=None, check_same_thread=False)
        if folder is not None:
            # Readers do not wait for a writer; what a power cut takes is asked again.
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=OFF")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS answers"
            " (number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT UNIQUE NOT NULL, answer TEXT NOT NULL)"
        )

    def get(self, key: str) -> str | None:
        """Return the answer of a key, if there is one."""
        row = self._database.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def put(self, key: str, answer: str) -> None:
        """Keep an answer, and drop the oldest beyond the bound."""
        self._database.execute("INSERT OR REPLACE INTO answers (key, answer) VALUES (?, ?)", (key, answer))
        # Numbers only grow, so those that are kept are the last `entries` of them.
        self._database.execute(
            "DELETE FROM answers WHERE number <= (SELECT MAX(number) FROM answers) - ?", (self.entries,)
        )

    def close(self) -> None:
        """Close the database."""
        self._database.close()
