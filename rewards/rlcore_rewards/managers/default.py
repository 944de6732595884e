"""The default reward manager: every row graded on its own, failures kept to their row, order kept."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import threading
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rlcore.errors import ConfigError, RewardError
from rlcore.protocols import Graded, Sample
from rlcore_rewards import calling
from rlcore_rewards.calling import Caller, NotGradedError, grade
from rlcore_rewards.managers.background import BackgroundLoop

log = logging.getLogger("rlcore")

WINDOW = 256  # newest grades over which the share of failures is taken
FEWEST_FAILURES = 8  # below this a share says nothing
FIRST_FAILURES = 4  # when nothing has ever been scored, this many rows with a failure among them are enough to stop
FIRST_NONES = 32  # likewise, without any failure: a function that forgot to return
OWN_FILES = (__file__, calling.__file__)  # frames of these, above a reward's own, tell its author nothing


class DefaultManager:
    """Grades samples with one reward, or with several whose scores are summed.

    A row is unscored (NaN) if a reward raises or returns something not finite (then its `error` says so), or if every
    reward returns None (does not apply; no error). With several rewards one None is left out of the sum, while one
    failure unscores the row. A time limit for a single row comes with the sandboxed manager.

    Args:
        rewards: a function, or functions by name; several are reported as parts under their names.
        workers: threads that synchronous functions run in, and calls that asynchronous ones have in flight. With 1,
            synchronous functions run in the calling thread (for those that set signals).
        max_failed_share: the share of the newest 256 rows that may fail before the run is stopped.
    """

    def __init__(
        self,
        rewards: Callable[..., Any] | Mapping[str, Callable[..., Any]],
        *,
        workers: int = 8,
        max_failed_share: float = 0.25,
    ) -> None:
        if workers < 1:
            raise ConfigError(f"reward_manager.workers={workers}; allowed: 1 or more")
        named = rewards if isinstance(rewards, Mapping) else {"": rewards}
        if not named:
            raise ConfigError("no reward to grade with; give a function, or functions by name")
        self.callers = [Caller(function, name) for name, function in named.items()]
        self.workers = workers
        self.max_failed_share = max_failed_share
        self.graded = self.scored = self.failed = 0
        self.first_traceback = ""
        self._recent: deque[bool] = deque(maxlen=WINDOW)
        self._pool: ThreadPoolExecutor | None = None
        self._loop: BackgroundLoop | None = None
        self._making = threading.Lock()

    def check(self, columns: Collection[str]) -> None:
        """Raise RewardError if a reward reads what data of these columns cannot give: to be asked before a rollout."""
        for caller in self.callers:
            caller.check(columns)

    def score(self, samples: Sequence[Sample]) -> list[Graded]:
        """One grade per sample, in order.

        Raises:
            RewardError: a reward reads a column that the data has not; more rows failed than may fail; or nothing has
                ever been scored. The message ends with the first traceback.
        """
        if not samples:
            return []
        if not self.graded:
            self.check({name for sample in samples for name in sample.data})
        columns = [self._grades(caller, samples) for caller in self.callers]
        grades = [self._combined(row) for row in zip(*columns, strict=True)]
        self._count(grades)
        return grades

    def close(self) -> None:
        """End the threads, and warn where no row was ever scored. A closed manager can be used again."""
        if self.graded and not self.scored:
            log.warning(
                "no row was ever scored: of %d rows %d failed and %d gave None%s",
                self.graded,
                self.failed,
                self.graded - self.failed,
                "" if self.failed else "; does the reward return its score?",
            )
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        if self._loop is not None:
            self._loop.close()
        self._pool = self._loop = None

    def _grades(self, caller: Caller, samples: Sequence[Sample]) -> list[Graded]:
        """One reward's grades of all samples; of several failures the first in row order is the one that is kept."""
        outcomes = self._outcomes(caller, samples)
        for row, (sample, outcome) in enumerate(zip(samples, outcomes, strict=True)):
            if isinstance(outcome, BaseException):
                self._keep_first(caller, sample, row, outcome)
        return [Graded(math.nan, {}, said(caller, one)) if isinstance(one, BaseException) else one for one in outcomes]

    def _outcomes(self, caller: Caller, samples: Sequence[Sample]) -> list[Graded | BaseException]:
        """What one reward gave or raised for each sample, in order, whichever thread or coroutine ended first."""
        if caller.asynchronous:
            return self.loop.run(self._gather(caller, samples))
        if self.workers == 1:
            return [self._call(caller, sample) for sample in samples]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="rlcore-rewards")
        return list(self._pool.map(self._call, [caller] * len(samples), samples))

    def _call(self, caller: Caller, sample: Sample) -> Graded | BaseException:
        try:
            result = caller.call(sample)
            if inspect.isawaitable(result):
                result = self.loop.run(awaited(result))
            return grade(result)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's function may raise anything; its row is unscored
            return error

    async def _gather(self, caller: Caller, samples: Sequence[Sample]) -> list[Graded | BaseException]:
        free = asyncio.Semaphore(self.workers)

        async def one(sample: Sample) -> Graded | BaseException:
            async with free:
                try:
                    return grade(await caller.call(sample))
                except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
                    return error

        return list(await asyncio.gather(*(one(sample) for sample in samples)))

    @property
    def loop(self) -> BackgroundLoop:
        """The loop that coroutines run in, made at first use by whichever thread comes first."""
        with self._making:
            if self._loop is None:
                self._loop = BackgroundLoop()
            return self._loop

    def _keep_first(self, caller: Caller, sample: Sample, row: int, error: BaseException) -> None:
        """Keep and log the run's first failure: which reward, which row, and the traceback."""
        if self.first_traceback:
            return
        where = f"row {row} of its call, prompt {sample.prompt[-80:]!r}, completion {sample.completion[:80]!r}"
        self.first_traceback = "\n".join([said(caller, error), where, *traced(error)])
        log.warning("a reward failed; its row is unscored. %s", self.first_traceback)

    def _combined(self, grades: Sequence[Graded]) -> Graded:
        """One row's grades as one: the sum of those that apply."""
        if len(grades) == 1:
            return grades[0]
        parts: dict[str, float] = {}
        for caller, part in zip(self.callers, grades, strict=True):
            if not math.isnan(part.score):
                parts[caller.name] = part.score
            parts.update((f"{caller.name}.{name}", value) for name, value in part.parts.items())
        errors = [part.error for part in grades if part.error]
        scores = [part.score for part in grades if not math.isnan(part.score)]
        return Graded(math.nan if errors or not scores else math.fsum(scores), parts, errors[0] if errors else None)

    def _count(self, grades: Sequence[Graded]) -> None:
        """Take the grades into account. Raises RewardError past the limits."""
        self.graded += len(grades)
        self.scored += sum(not math.isnan(one.score) for one in grades)
        self.failed += sum(one.error is not None for one in grades)
        self._recent.extend(one.error is not None for one in grades)
        recent = sum(self._recent)
        if not self.scored and self.graded >= (FIRST_FAILURES if self.failed else FIRST_NONES):
            returned_none = self.graded - self.failed
            first = self.first_traceback or "none; does the function return its score?"
            raise RewardError(
                f"every reward failed: of {self.graded} rows {self.failed} raised or gave no finite score and"
                f" {returned_none} gave None. First failure: {first}"
            )
        if recent >= FEWEST_FAILURES and recent > self.max_failed_share * len(self._recent):
            raise RewardError(
                f"{recent} of the last {len(self._recent)} rewards failed, more than the share of"
                f" {self.max_failed_share} that reward_manager.max_failed_share allows."
                f" First failure: {self.first_traceback}"
            )


def said(caller: Caller, error: BaseException) -> str:
    """A failure in one line: the reward's name, and what it raised or returned."""
    text = str(error) if isinstance(error, RewardError) else f"{type(error).__name__}: {error}"
    return escaped(f"reward {caller.name!r}: {text}")


def traced(error: BaseException) -> list[str]:
    """The lines of a traceback, from the reward's own code on; none for what it returned rather than raised."""
    if isinstance(error, NotGradedError):
        return []
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in OWN_FILES:
        trace = trace.tb_next
    lines = "".join(traceback.format_exception(type(error), error, trace)).splitlines()
    return [escaped(line) for line in lines]


def escaped(text: str) -> str:
    """The text with control characters as Python spells them: what a completion holds must not steer a terminal."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


async def awaited(result: Awaitable[Any]) -> Any:
    """What an awaitable gives, as the coroutine that a loop wants."""
    return await result
