"""Trying a reward on completions that are there already: each is graded on its own, by a run's own manager."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rlcore.component import Component, reads
from rlcore.data import read_rows, text_of
from rlcore.data.known import LAYOUTS
from rlcore.data.layouts import find, tidy
from rlcore.errors import ConfigError, DataError, RewardError, nearest
from rlcore.execute.grade import messages_of
from rlcore.protocols import Graded, RewardManager, Sample
from rlcore.run.inputs import close

KINDS = {str: "text", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}


@dataclass(frozen=True)
class Tried:
    """What one sample got, and how long its grading took."""

    graded: Graded
    seconds: float


def samples_of(path: str | Path, *, answer_key: str = "", completion_key: str = "") -> list[Sample]:
    """The samples of a file: its rows' `completion`, with `prompt` (text or messages) and every other column as data.

    A row without `target` and `ground_truth` is read by its layout, as `rlcore.data.to_rows` reads it, if it is of a
    known one: its target and prompt come from there. Of a completion of messages the assistant's texts are taken.

    answer_key, completion_key: a column, or a path such as `extra_info.answer`, for files that have other names.

    Raises:
        DataError: no such file, an empty one, a row without what a key names, whose columns are not what its layout
            says, or without a completion that is text or messages; with its number, from 0.
    """
    samples = []
    for index, source in enumerate(read_rows(path)):
        line = f"{path}, row {index}"
        try:
            completion = find(tidy(source), completion_key, "completion", line) if completion_key else None
            row = answered({name: value for name, value in source.items() if name != "completion"}, answer_key, line)
        except DataError as error:
            raise DataError(str(error) if str(error).startswith(line) else f"{line}: {error}") from None
        if not completion_key and "completion" not in source:
            raise DataError(
                f"{line}: there is no completion; name it with --completion-key. Its columns: {', '.join(source)}."
                f"{nearest('completion', source)}"
            )
        samples.append(sample_of(row, assistant_text(completion if completion_key else source["completion"], line)))
    return samples


def answered(row: dict[str, Any], answer_key: str, line: str) -> dict[str, Any]:
    """A row with its target and prompt: as they stand there, under the key, or as its layout has them."""
    given = "prompt" in row if answer_key else "target" in row or "ground_truth" in row
    layout = None if given else next((layout for layout in LAYOUTS if layout.fits(row)), None)
    made = row if layout is None else layout.convert(tidy(row))
    if not answer_key:
        return made
    answer = find(tidy(row), answer_key, "answer", line)
    return {**{name: value for name, value in made.items() if name != "ground_truth"}, "target": answer}


def assistant_text(completion: Any, line: str) -> str:
    """A completion as text; of messages what the assistant says. Raises DataError for anything else."""
    if isinstance(completion, str):
        return completion
    messages = completion if isinstance(completion, list) else []
    said = [one for one in messages if isinstance(one, Mapping) and one.get("role") == "assistant"]
    if not said:
        found = "a list without a message of the assistant" if isinstance(completion, list) else kind_of(completion)
        raise DataError(f"{line}: completion is {found}; expected text, or messages with the assistant's")
    return text_of(said)


def kind_of(value: Any) -> str:
    """What a value is, in a word or two."""
    return "null" if value is None else KINDS.get(type(value), type(value).__name__)


def sample_of(row: dict[str, Any], completion: str) -> Sample:
    """A row as what a reward is called with; a prompt of messages is also given as their texts, one below another."""
    prompt = row.get("prompt") or ""
    messages = messages_of(prompt)
    said = [str(message.get("content") or "") for message in messages or () if isinstance(message, dict)]
    text = prompt if isinstance(prompt, str) else "\n\n".join(said)
    return Sample(text, completion, messages, row)


class Trial:
    """A reward and the manager that calls it, for as long as it is tried: `with Trial(reward, start) as trial`.

    reward: as a run would have it. start: makes a manager for it. workers: how many samples are graded at once; with
    more than one the seconds of each are not its own alone.
    """

    def __init__(self, reward: Component, start: Component, *, workers: int = 1) -> None:
        if workers < 1:
            raise ConfigError(f"workers={workers}; allowed: 1 or more")
        self.reward, self.start, self.workers = reward, start, workers
        self.batched = "completions" in {read.name for read in reads(reward)}
        self._managers: list[RewardManager] = [start(reward)]
        self._renewing = threading.Lock()

    def __enter__(self) -> Self:
        """Return the trial itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close every manager."""
        for manager in self._managers:
            close(manager)

    def check(self, samples: Sequence[Sample]) -> None:
        """Raise RewardError for a column that the reward reads and no row has, as far as the manager can tell.

        A single row that nothing could be graded against stops a run before its first rollout; here it is unscored.
        """
        of_columns = getattr(self._managers[-1], "check", None)
        if of_columns is not None:
            of_columns(set().union(*(sample.data for sample in samples)))

    def grade(self, samples: Sequence[Sample]) -> Iterator[Tried]:
        """Grade samples, in order; one that cannot be scored stops nothing.

        Each is graded by itself, so that its seconds are known. Where the reward is called with whole batches, all
        samples are one, and each has its share of the seconds.
        """
        if self.batched:
            begun = time.perf_counter()
            grades = self._score(samples)
            share = (time.perf_counter() - begun) / len(samples)
            yield from (Tried(graded, share) for graded in grades)
        elif self.workers == 1:
            yield from map(self._one, samples)
        else:
            with ThreadPoolExecutor(self.workers, thread_name_prefix="rlcore-trial") as pool:
                yield from pool.map(self._one, samples)

    def _one(self, sample: Sample) -> Tried:
        begun = time.perf_counter()
        graded = self._score([sample])[0]
        return Tried(graded, time.perf_counter() - begun)

    def _score(self, samples: Sequence[Sample]) -> list[Graded]:
        manager = self._managers[-1]
        try:
            return manager.score(samples)
        except RewardError:
            # A manager ends a run whose rewards fail too often; a new one has counted nothing yet.
            with self._renewing:
                if manager is self._managers[-1]:
                    self._managers.append(self.start(self.reward))
            try:
                return self._managers[-1].score(samples)
            except RewardError as error:
                return [Graded(math.nan, error=str(error))] * len(samples)
