"""The default reward manager: every row graded on its own, failures kept to their row, order kept, time limited."""

from __future__ import annotations

import logging
import math
import re
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from rlcore.errors import ConfigError, RewardError
from rlcore.protocols import Graded, Sample
from rlcore_rewards.calling import Caller
from rlcore_rewards.combinations import Weighted
from rlcore_rewards.managers.managed_rewards import failure_line, managed_reward, traceback_lines
from rlcore_rewards.managers.reward_host import RewardHost
from rlcore_workers.fork_server import describe_error

log = logging.getLogger("rlcore")

WINDOW = 256  # newest grades over which the share of failures is taken
FEWEST_FAILURES = 8  # below this a share says nothing
FIRST_FAILURES = 4  # when nothing has ever been scored, this many rows with a failure among them are enough to stop
FIRST_NONES = 32  # likewise, without any failure: a function that forgot to return
MOST_KINDS = 32  # of failures that are kept, each with its first text
VARYING = re.compile(r"""[0-9'"`]""")  # from the first of these on a message is of its row


@dataclass
class Failures:
    """Rows that failed alike: the first one's text, and how many there are."""

    text: str
    rows: int = 0


class DefaultManager:
    """Grades samples with one reward, or with several whose scores are summed.

    A row is unscored (NaN) if a reward raises, takes too long, or returns something not finite (then its `error` says
    so), or if every reward returns None (does not apply; no error). With several rewards one None is left out of the
    sum, while one failure unscores the row.

    Where a reward runs: a plain function in worker processes that are killed past its time, so that what it remembers
    between calls stays there; an asynchronous one in an event loop of this process, where it is cancelled; one that
    says `bounded` in threads of this process, without a limit, as its work is bounded by itself. A function of
    whole batches (with a parameter `completions`) has the limit for each of its calls.

    Args:
        rewards: a function, or functions by name; several are reported as components under their names.
        workers: worker processes, threads of this process, and asynchronous calls in flight, each at most. With 1,
            what runs in this process runs in the calling thread (for functions that set signals).
        seconds: the longest that the grading of one sample by one reward may take, None for no limit.
        isolate: whether plain functions run in worker processes; without, nothing can stop them.
        max_failed_share: the share of the newest 256 rows that may fail before the run is stopped. None stops it for
            no failure; then every kind of failure is logged at the end, with how many rows had it.
    """

    def __init__(
        self,
        rewards: Callable[..., Any] | Mapping[str, Callable[..., Any]],
        *,
        workers: int = 8,
        seconds: float | None = 60.0,
        isolate: bool = True,
        max_failed_share: float | None = 0.25,
    ) -> None:
        if workers < 1:
            raise ConfigError(f"reward_manager.workers={workers}; allowed: 1 or more")
        if seconds is not None and not (seconds > 0 and math.isfinite(seconds)):
            raise ConfigError(f"reward_manager.seconds={seconds}; allowed: a number above 0, or null for no limit")
        self.host = RewardHost(workers=workers, seconds=seconds, isolate=isolate, failed=self._keep_first)
        self.component = managed_reward(
            Weighted(components=dict(rewards)) if isinstance(rewards, Mapping) else rewards, "", self.host
        )
        self.component_names, self.checks_rows = self.component.names, self.component.checks_rows
        self.max_failed_share = max_failed_share
        self.graded = self.scored = self.failed = 0
        self.first_traceback = ""
        self.failures: dict[tuple[str, str, str], Failures] = {}
        self._recent: deque[bool] = deque(maxlen=WINDOW)
        self._counting = threading.Lock()
        self._streams: ThreadPoolExecutor | None = None

    def check(self, columns: Collection[str]) -> None:
        """Raise RewardError if a reward reads what data of these columns cannot give: to be asked before a rollout.

        Raises ConfigError for a function that cannot be sent to a worker process.
        """
        self.component.check(columns)

    def check_row(self, data: Mapping[str, Any]) -> None:
        """Raise DataError if no completion could ever be graded against this row, as far as the rewards can say."""
        self.component.check_row(data)

    def score(self, samples: Sequence[Sample]) -> list[Graded]:
        """Return one grade per sample, in order.

        Raises:
            RewardError: a reward reads a column that the data has not; more rows failed than may fail; or nothing has
                ever been scored. The message ends with the first traceback.
            ConfigError: a function that cannot be sent to a worker process.
        """
        if not samples:
            return []
        if not self.graded:
            self.check({name for sample in samples for name in sample.data})
        grades = self.component.begin(samples)()
        with self._counting:
            self.first_traceback = self.first_traceback or next((one.error for one in grades if one.error), "")
            self._count(grades)
        return grades

    def submit(self, samples: Sequence[Sample]) -> Future[list[Graded]]:
        """Return the grades of samples while others are still being drawn: a future of what `score` gives or raises.

        As many calls are under way as there are `workers`. Whoever wants grades as they come waits with
        `concurrent.futures.as_completed`, or `asyncio.wrap_future`.
        """
        with self._counting:
            if self._streams is None:
                self._streams = ThreadPoolExecutor(self.host.workers, thread_name_prefix="rlcore-grades")
            return self._streams.submit(self.score, samples)

    def close(self) -> None:
        """Close the rewards, and warn if no row was ever scored. A closed manager can be used again."""
        if self.max_failed_share is None:
            for one in self.failures.values():
                log.warning("a reward failed; unscored: %s. %s", f"{one.rows} row{'s' * (one.rows != 1)}", one.text)
            self.failures = {}
        if self.graded and not self.scored:
            log.warning(
                "no row was ever scored: of %d rows %d failed and %d gave None%s",
                self.graded,
                self.failed,
                self.graded - self.failed,
                "" if self.failed else "; does the reward return its score?",
            )
        streams, self._streams = self._streams, None
        if streams is not None:
            streams.shutdown(wait=False, cancel_futures=True)
        self.component.close()
        self.host.close()

    def _keep_first(self, caller: Caller, sample: Sample, row: int, error: BaseException) -> None:
        """Count a failure with those of its kind; keep the first of each, log the first of all.

        The text says which reward, which row, and the traceback. A row that its own check refuses needs its line alone.
        """
        kind = (caller.name, type(error).__name__, VARYING.split(describe_error(error), maxsplit=1)[0][:80])
        with self._counting:
            if kind not in self.failures and len(self.failures) >= MOST_KINDS:
                return
            if kind not in self.failures:
                where = f"row {row} of its call, prompt {sample.prompt[-80:]!r}, completion {sample.completion[:80]!r}"
                lines = [] if refuses_row(caller, sample, error) else [where, *traceback_lines(error)]
                self.failures[kind] = Failures("\n".join([failure_line(caller, error), *lines]))
            self.failures[kind].rows += 1
            if self.first_traceback:
                return
            self.first_traceback = self.failures[kind].text
        if self.max_failed_share is not None:
            log.warning("a reward failed; its row is unscored. %s", self.first_traceback)

    def _count(self, grades: Sequence[Graded]) -> None:
        """Count the grades. Raises RewardError if more rows failed than may fail."""
        self.graded += len(grades)
        self.scored += sum(not math.isnan(one.score) for one in grades)
        self.host.scored = self.scored > 0
        self.failed += sum(one.error is not None for one in grades)
        self._recent.extend(one.error is not None for one in grades)
        if self.max_failed_share is None:
            return
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


def refuses_row(caller: Caller, sample: Sample, error: BaseException) -> bool:
    """Return whether the reward's own check of rows says that this row could not be graded, whatever the completion."""
    if caller.check_row is None or not isinstance(error, ValueError):
        return False
    try:
        caller.check_row(sample.data)
    except Exception as found:  # noqa: BLE001 - a stranger's check may raise anything
        return isinstance(found, ValueError)
    return False
