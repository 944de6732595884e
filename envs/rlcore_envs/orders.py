"""Orders that go by how hard a row is: in stages of a column, or by how often the policy succeeds at it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.data import DataOrder, Row, value_at
from rlcore.data.order import check_count, check_state
from rlcore.errors import DataError
from rlcore.seeding import numpy_generator, stream


class Staged:
    """Easy rows first: the rows sorted by a column and cut into equal stages, of which ever more are drawn from.

    Rows are drawn in shuffled epochs of all stages that are open. The next stage opens once the mean score of the last
    `window` graded samples reaches `success`; the window then begins anew. Rows of equal difficulty may be cut apart.

    Args:
        column: holds a number, higher for harder (or a path of keys, such as `extra_info.level`).
        stages: how many; the first is open from the start.
        success: mean score that opens the next stage.
        window: samples over which it is taken.
    """

    def __init__(
        self,
        size: int,
        seed: int,
        rows: Sequence[Row],
        *,
        column: str = "difficulty",
        stages: int = 4,
        success: float = 0.7,
        window: int = 256,
    ) -> None:
        if not 1 <= stages <= size or window < 1:
            raise DataError(f"order=staged: stages={stages} (1 to the {size} rows) and window={window} (1 or more)")
        self.size, self.seed, self.stages, self.success = size, seed, stages, success
        difficulty = numeric_column(rows, column, size)
        self._sorted = np.argsort(difficulty, kind="stable")
        self.stage = 0
        self._scores: deque[float] = deque(maxlen=window)
        self._inner = self._order()

    @property
    def open(self) -> int:
        """Return the number of rows that are drawn from."""
        return math.ceil(self.size * (self.stage + 1) / self.stages)

    def next(self, count: int) -> list[int]:
        """Return the next indices; more than the open stages have run over into another epoch of them."""
        check_count(count, self.size)
        drawn: list[int] = []
        while len(drawn) < count:
            drawn += self._inner.next(min(count - len(drawn), self.open))
        return [int(self._sorted[place]) for place in drawn]

    def observe(self, index: int, scores: Sequence[float]) -> None:
        """Take the scores of one row's samples; open the next stage if they are good enough."""
        self._scores.extend(scores)
        full = len(self._scores) == self._scores.maxlen
        if full and self.stage + 1 < self.stages and sum(self._scores) / len(self._scores) >= self.success:
            self.stage += 1
            self._scores.clear()
            self._inner = self._order()

    def _order(self) -> DataOrder:
        return DataOrder(self.open, stream(self.seed, "stage", self.stage))

    def state_dict(self) -> dict[str, Any]:
        """Return the state to save."""
        about = {"size": self.size, "seed": self.seed, "stage": self.stage}
        return {**about, "drawn": self._inner.drawn, "score_components": list(self._scores)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state. Raises DataError if it belongs to other data or another seed."""
        check_state(state, self.size, self.seed)
        self.stage = int(state["stage"])
        self._inner = self._order()
        self._inner.drawn = int(state["drawn"])
        self._scores.clear()
        self._scores.extend(state["score_components"])


class BySuccess:
    """Rows at which the policy sometimes succeeds, more often than those at which it always or never does.

    A row's running success p moves by `rate` towards the mean score (0 to 1) of its samples whenever it is graded. Each
    draw takes different rows, with chances in proportion to `floor + 4 p (1 - p)`: 1 + `floor` at one half, `floor`
    where p is 0 or 1. There are no epochs: a row may come again soon, and another not for long.

    Args:
        column: a first guess of p for each row (a pass rate measured before), or a path of keys; "" for one half.
        rate: weight of the newest samples in p, above 0 to 1.
        floor: what keeps rows from being forgotten, above 0.
    """

    def __init__(
        self, size: int, seed: int, rows: Sequence[Row], *, column: str = "", rate: float = 0.5, floor: float = 0.1
    ) -> None:
        if not 0 < rate <= 1 or not floor > 0:
            raise DataError(f"order=by_success: rate={rate} (above 0 to 1) and floor={floor} (above 0)")
        self.size, self.seed, self.rate, self.floor = size, seed, rate, floor
        self.draws = 0
        self.expected = numeric_column(rows, column, size) if column else np.full(size, 0.5)
        if column and not ((self.expected >= 0) & (self.expected <= 1)).all():
            raise DataError(f"order=by_success: column {column!r} must hold pass rates from 0 to 1")

    def next(self, count: int) -> list[int]:
        """Return the next indices, all different."""
        check_count(count, self.size)
        chance = self.floor + 4 * self.expected * (1 - self.expected)
        generator = numpy_generator(self.seed, "by_success", self.draws)
        self.draws += 1
        # The largest of log(chance) plus Gumbel noise: draws without replacement (Efraimidis and Spirakis 2006).
        keys = np.log(chance) + generator.gumbel(size=self.size)
        return [int(place) for place in np.argsort(-keys, kind="stable")[:count]]

    def observe(self, index: int, scores: Sequence[float]) -> None:
        """Take the scores of one row's samples; those outside 0 to 1 count as the nearer end."""
        if scores:
            mean = sum(min(max(score, 0.0), 1.0) for score in scores) / len(scores)
            self.expected[index] += self.rate * (mean - self.expected[index])

    def state_dict(self) -> dict[str, Any]:
        """Return the state to save, eight bytes a row."""
        return {"size": self.size, "seed": self.seed, "draws": self.draws, "expected": self.expected.tolist()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state. Raises DataError if it belongs to other data or another seed."""
        check_state(state, self.size, self.seed)
        self.draws = int(state["draws"])
        self.expected = np.array(state["expected"], dtype=np.float64)


class Sequential(DataOrder):
    """Rows in the order of the data, over and over: for data that was put in order before."""

    def next(self, count: int) -> list[int]:
        """Return the next indices."""
        check_count(count, self.size)
        self.drawn += count
        return [place % self.size for place in range(self.drawn - count, self.drawn)]


def numeric_column(rows: Sequence[Row], column: str, size: int) -> NDArray[np.float64]:
    """Return a column (or path of keys) as numbers. Raises DataError naming the first row that has none."""
    found = np.empty(size)
    for index, row in enumerate(rows):
        value = value_at(row, column)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise DataError(
                f"row {index}: order.column={column!r} must hold a number; found {value!r:.60}; columns:"
                f" {', '.join(row)}"
            )
        found[index] = value
    return found
