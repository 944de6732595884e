"""Trying a reward on completions that are there already: each is graded on its own, by a run's own manager."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

from rlcore import services
from rlcore.component import Component, reads
from rlcore.errors import ConfigError, RewardError
from rlcore.inspect.adversarial import ADVERSARIAL_KINDS, TARGET_ITSELF, AdversarialCompletion
from rlcore.protocols import Graded, RewardManager, Sample
from rlcore.services import grade_samples


@dataclass(frozen=True)
class TrialResult:
    """What one sample got, and how many seconds its grading took."""

    graded: Graded
    seconds: float

    @property
    def scored(self) -> bool:
        """Return whether there is a score."""
        return not math.isnan(self.graded.score)

    def as_dict(self) -> dict[str, Any]:
        """Return score, score components, extracted answer and seconds; `error` only where there is one."""
        graded = self.graded
        found = {
            "score": float(graded.score),
            "components": {name: float(value) for name, value in graded.components.items()},
            "extracted": graded.extracted,
            "seconds": round(self.seconds, 6),
        }
        return {**found, "error": graded.error} if graded.error is not None else found


def trial_summary(results: Sequence[TrialResult]) -> dict[str, Any]:
    """Return the figures of all rows: counts, means over the scored ones, seconds, and the row that took longest."""
    scores = [result.graded.score for result in results if result.scored]
    parts: dict[str, list[float]] = {}
    for result in results:
        for name, value in result.graded.components.items():
            parts.setdefault(name, []).append(value)
    seconds = [result.seconds for result in results]
    return {
        "rows": len(results),
        "scored": len(scores),
        "unscored": len(results) - len(scores),
        "failed": sum(result.graded.error is not None for result in results),
        "score": math.fsum(scores) / len(scores) if scores else None,
        "components": {name: math.fsum(values) / len(values) for name, values in parts.items()},
        "seconds": round(math.fsum(seconds), 6),
        "slowest": max(range(len(seconds)), key=seconds.__getitem__),
    }


def audit_summary(
    completions: Sequence[AdversarialCompletion], results: Sequence[TrialResult], accepted: float
) -> dict[str, Any]:
    """Return how many adversarial completions of each kind there are and got a score of `accepted` or more.

    `target_itself` is the same of the target: a reward that does not accept it says nothing about the others.
    """
    kinds = {}
    for kind in (*ADVERSARIAL_KINDS, TARGET_ITSELF):
        scores = [r.graded.score for c, r in zip(completions, results, strict=True) if c.kind == kind]
        kinds[kind] = {"given": len(scores), "accepted": sum(score >= accepted for score in scores)}
    control = kinds.pop(TARGET_ITSELF)
    return {
        "adversarial": sum(counts["given"] for counts in kinds.values()),
        "wrongly_accepted": sum(counts["accepted"] for counts in kinds.values()),
        "kinds": kinds,
        "target_itself": control,
        "failed": sum(result.graded.error is not None for result in results),
        "seconds": round(math.fsum(result.seconds for result in results), 6),
    }


class RewardTrial:
    """A reward and the manager that calls it, while it is tried: `with RewardTrial(reward, start) as trial`.

    reward: as a run would have it. start: makes a manager for it. workers: how many samples are graded at once; with
    more than one the seconds of each are not its own alone.
    """

    def __init__(self, reward: Component, start: Component, *, workers: int = 1) -> None:
        if workers < 1:
            raise ConfigError(f"workers={workers}; allowed: 1 or more")
        self.reward, self.start, self.workers = reward, start, workers
        self.batched = "completions" in {read.name for read in reads(reward)}
        self._managers: list[RewardManager] = [services.start("reward_manager", start, reward)]
        self._renewing = threading.Lock()

    def __enter__(self) -> Self:
        """Return the trial itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close every manager."""
        for manager in self._managers:
            manager.close()

    def check(self, samples: Sequence[Sample]) -> None:
        """Raise RewardError for a column that the reward reads and no row has, as far as the manager can tell.

        A single row that nothing could be graded against stops a run before its first rollout; here it is unscored.
        """
        try:
            self._managers[-1].check(set().union(*(sample.data for sample in samples)))
        except RewardError as error:
            if any("target" in sample.data or "ground_truth" in sample.data for sample in samples):
                raise
            raise RewardError(f"{error} If one of these is the answer, name it with --answer-key") from None

    def grade(self, samples: Sequence[Sample]) -> Iterator[TrialResult]:
        """Grade samples, in order; one that cannot be scored stops nothing.

        Each is graded by itself, so that its seconds are known. Where the reward is called with whole batches, all
        samples are one, and each has its share of the seconds.
        """
        if self.batched:
            begun = time.perf_counter()
            grades = self._score(samples)
            share = (time.perf_counter() - begun) / len(samples)
            yield from (TrialResult(graded, share) for graded in grades)
        elif self.workers == 1:
            yield from map(self._grade_alone, samples)
        else:
            with ThreadPoolExecutor(self.workers, thread_name_prefix="rlcore-trial") as pool:
                yield from pool.map(self._grade_alone, samples)

    def _grade_alone(self, sample: Sample) -> TrialResult:
        begun = time.perf_counter()
        graded = self._score([sample])[0]
        return TrialResult(graded, time.perf_counter() - begun)

    def _score(self, samples: Sequence[Sample]) -> list[Graded]:
        manager = self._managers[-1]
        try:
            return grade_samples(manager, samples)
        except RewardError:
            # A manager ends a run whose rewards fail too often; a new one has counted nothing yet.
            with self._renewing:
                if manager is self._managers[-1]:
                    self._managers.append(services.start("reward_manager", self.start, self.reward))
            try:
                return grade_samples(self._managers[-1], samples)
            except RewardError as error:
                return [Graded(math.nan, error=str(error))] * len(samples)
