"""Several trackers as one: a tracker that fails or blocks stops neither the run nor the other trackers."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rlcore.protocols import Tracker

_log = logging.getLogger(__name__)


def started_trackers(chosen: Iterable[Callable[[], Tracker]]) -> dict[str, Tracker]:
    """Return the trackers that a run chose, started, by name; the second of a name gets a number."""
    trackers: dict[str, Tracker] = {}
    for make in chosen:
        tracker = make()
        name = type(tracker).__name__.lower()
        trackers[name if name not in trackers else f"{name}_{len(trackers) + 1}"] = tracker
    return trackers


class Trackers(Tracker):
    """Gives every step's metrics to every tracker.

    A tracker works in a thread of its own behind a bounded queue; one that says `immediate = True` (console, jsonl:
    local and quick) is called directly, so its row is out when `log` returns. What a tracker raises is logged once as
    a warning and stops neither the run nor the tracker's later rows, save that one which did not start gets none. A
    tracker that blocks costs at most `timeout_seconds` during the run and as much at the end; then it is given up
    with one warning.
    """

    def __init__(
        self, trackers: Mapping[str, Tracker], *, timeout_seconds: float = 20.0, queue_rows: int = 1000
    ) -> None:
        self._lanes = [
            _Lane(name, tracker, queue_rows=0 if tracker.immediate else queue_rows)
            for name, tracker in trackers.items()
        ]
        self._timeout_seconds = timeout_seconds

    def check(self) -> None:
        """Raise ConfigError where one of them cannot work here."""
        for lane in self._lanes:
            lane.tracker.check()

    def start(self, *, run: str, project: str, config: Mapping[str, Any], folder: Path) -> None:
        """Begin to open every tracker; returns at once."""
        for lane in self._lanes:
            lane.start(run=run, project=project, config=config, folder=folder)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Give one step's metrics to every tracker."""
        row = dict(metrics)
        for lane in self._lanes:
            lane.log(step, row, self._timeout_seconds)

    def finish(self) -> None:
        """Close every tracker that can be closed in time; none that was never started."""
        deadline = time.monotonic() + self._timeout_seconds
        for lane in self._lanes:
            lane.begin_finish()
        for lane in self._lanes:
            lane.end_finish(max(0.0, deadline - time.monotonic()))


class _Lane:
    """One tracker, its thread if it has one, and whether it was warned about."""

    def __init__(self, name: str, tracker: Tracker, *, queue_rows: int) -> None:
        self.name = name
        self.tracker = tracker
        self._places = threading.Semaphore(queue_rows)
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        # A daemon, so that a tracker that blocks for ever cannot keep the process alive.
        self._thread = threading.Thread(target=self._work, name=f"tracker {name}", daemon=True) if queue_rows else None
        self._started = False
        self._lost = False  # it failed to start, or it blocked
        self._warned = False
        self._lock = threading.Lock()

    def start(self, **about: Any) -> None:
        self._started = True
        if self._thread is None:
            self._open(about)
        else:
            self._calls.put(lambda: self._open(about))
            self._thread.start()

    def log(self, step: int, row: Mapping[str, float], timeout_seconds: float) -> None:
        if self._lost:
            return
        if self._thread is None:
            self._log(step, row)
        elif self._places.acquire(timeout=timeout_seconds):
            self._calls.put(lambda: self._log(step, row))
        else:
            self._give_up(f"took no row for {timeout_seconds:g} s")

    def begin_finish(self) -> None:
        if not self._started:
            return
        if self._thread is None:
            self._close()
        else:
            self._calls.put(self._close)
            self._calls.put(None)

    def end_finish(self, timeout_seconds: float) -> None:
        if self._started and self._thread is not None and not self._lost:
            self._thread.join(timeout_seconds)
            if self._thread.is_alive():
                self._give_up("did not finish in time")

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def _open(self, about: Mapping[str, Any]) -> None:
        self._lost = not self._try("start", lambda: self.tracker.start(**about))

    def _log(self, step: int, row: Mapping[str, float]) -> None:
        self._places.release()
        if not self._lost:
            self._try(f"step {step}", lambda: self.tracker.log(step, row))

    def _close(self) -> None:
        if not self._lost:
            self._try("finish", self.tracker.finish)

    def _try(self, moment: str, call: Callable[[], None]) -> bool:
        try:
            call()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a tracker raises must not stop a run
            self._warn(f"failed at {moment} ({type(error).__name__}: {error})")
            return False
        return True

    def _give_up(self, why: str) -> None:
        self._lost = True
        self._warn(f"{why} and is given up")

    def _warn(self, trouble: str) -> None:
        with self._lock:
            if self._warned:
                return
            self._warned = True
        _log.warning("tracker %s %s; the run goes on, and this is said once", self.name, trouble)
