"""Rollouts that run beside the update, and the ledger of every prompt that was drawn."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rlcore.errors import RunError


@dataclass
class Ledger:
    """What became of each group that was drawn: trained, dropped (by what), or not yet either.

    At every checkpoint drawn = trained + dropped + waiting.
    """

    drawn: int = 0
    trained: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def drop(self, why: str, groups: int) -> None:
        """Count groups that will not be trained."""
        if groups:
            self.dropped[why] += groups

    def count(self, node: str, before: int, after: int) -> None:
        """Count the groups that a node of the rollout dropped, or made."""
        self.drop(node, max(before - after, 0))
        self.drawn += max(after - before, 0)

    def merge(self, other: Ledger) -> None:
        """Add the counts of another one."""
        self.drawn += other.drawn
        self.trained += other.trained
        self.dropped.update(other.dropped)

    def check(self, waiting: int) -> None:
        """Raise RunError where a group was lost or counted twice; `waiting` are drawn and not yet trained."""
        counted = self.trained + self.dropped.total() + waiting
        if counted != self.drawn:
            raise RunError(
                f"{self.drawn} groups were drawn, and {counted} are accounted for: {self.trained} trained, "
                f"{self.dropped.total()} dropped ({dict(self.dropped)}), {waiting} waiting. This is a fault of rlcore"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the counts."""
        return {"drawn": self.drawn, "trained": self.trained, "dropped": dict(self.dropped)}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore the counts."""
        self.drawn, self.trained = int(saved["drawn"]), int(saved["trained"])
        self.dropped = Counter(saved["dropped"])


class RolloutsAhead:
    """A thread that runs the rollout stages of the next steps, in order, while an earlier one is learnt from.

    The stage of step s may begin once step s - `age` is being learnt from: then its rows are drawn by weights that are
    at most `age` updates old when they are trained on, and at most `age` + 1 steps' groups are alive. `ready` are the
    steps that wait to be taken.
    """

    def __init__(self, roll_out: Callable[[int], Any], total: int, age: int) -> None:
        self._roll_out, self._total, self._age = roll_out, total, age
        self._changed = threading.Condition()
        self.ready: list[Any] = []
        self._next = self._learning = -1
        self._busy = self._held = self._closed = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def take(self, step: int) -> Any:
        """Return a step after its rollout stage, and let the stages of those after it begin.

        Raises what the stage raised.
        """
        with self._changed:
            if self._next < 0:
                self._next = step
            self._learning = max(self._learning, step - self._age)  # its own stage may begin, no later one yet
            self._start()
            self._changed.wait_for(lambda: self.ready or self._error is not None)
            if not self.ready:
                assert self._error is not None
                raise self._error
            result = self.ready.pop(0)
            self._learning = step
            self._changed.notify_all()
            return result

    @contextmanager
    def standing_still(self, *, learning: int | None = None) -> Iterator[None]:
        """Wait for the stage under way, and let none begin within the block.

        Beside the learning of a step, wait for all stages that may run beside it: then which weights draw a step's
        rows does not depend on who is faster.
        """
        last = -2 if learning is None else min(learning + self._age, self._total - 1)
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or self._closed or self._next > last)
            self._held = True
            self._changed.wait_for(lambda: not self._busy)
        try:
            yield
        finally:
            with self._changed:
                self._held = False
                self._changed.notify_all()

    def restore(self, results: Sequence[Any]) -> None:
        """Go on after steps that were ready when a run was saved."""
        self.ready = list(results)
        if results:
            self._next = results[-1].step + 1

    def close(self, interrupt: Callable[[], None]) -> None:
        """Let no stage begin any more; `interrupt` ends the one under way."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None and self._busy:
            interrupt()
            self._thread.join(timeout=60)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rlcore-rollouts", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _may_begin(self) -> bool:
        ahead = self._next <= self._learning + self._age and self._next < self._total
        return self._closed or (ahead and not self._held)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._may_begin)
                if self._closed:
                    return
                self._busy = True
            try:
                result = self._roll_out(self._next)
            except BaseException as error:  # noqa: BLE001 - it is raised where the step is taken
                with self._changed:
                    self._error, self._busy = error, False
                    self._changed.notify_all()
                return
            with self._changed:
                self.ready.append(result)
                self._next += 1
                self._busy = False
                self._changed.notify_all()
