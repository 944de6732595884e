"""The order in which prompts are drawn: shuffled epochs, and a state small enough to save with every checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rlcore.errors import DataError
from rlcore.seeding import numpy_generator


@runtime_checkable
class Order(Protocol):
    """Says which rows are drawn next, and keeps what it knows with every checkpoint.

    Called with what it asks for by name: `size` (rows), `seed`, `rows`; its options are keyword-only. One that is told
    scores is `ObservesScores` too.
    """

    def next(self, count: int) -> list[int]:
        """Return the indices of the next `count` rows."""
        ...

    def state_dict(self) -> Mapping[str, Any]:
        """Return all that it depends on, as plain values and tensors."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state, exactly."""
        ...


@runtime_checkable
class ObservesScores(Protocol):
    """An order that goes by how well the policy does at the rows that it gave."""

    def observe(self, index: int, scores: Sequence[float]) -> None:
        """Take the scores (unscored ones left out) of a drawn row's samples, in the order of grading."""
        ...


class DataOrder:
    """Indices of `size` rows in shuffled epochs, without end.

    Each epoch is a permutation of its own, made from (seed, epoch) alone, so a resumed order needs no generator state
    and continues exactly as the uninterrupted one. Where a draw does not divide the size, it runs over into the next
    epoch: every row is drawn once per epoch, none is left out.
    """

    def __init__(self, size: int, seed: int) -> None:
        if size < 1:
            raise DataError("a data order needs at least one row, found 0")
        self.size = size
        self.seed = seed
        self.drawn = 0
        self._epoch = -1
        self._permutation: NDArray[np.int64] = np.empty(0, np.int64)

    def next(self, count: int) -> list[int]:
        """Return the next `count` indices. Raises DataError if that is more than there are rows, or less than one."""
        check_count(count, self.size)
        indices = []
        for _ in range(count):
            epoch, position = divmod(self.drawn, self.size)
            if epoch != self._epoch:
                self._epoch = epoch
                # Eight bytes a row: a list of Python's integers would take as much memory as short rows themselves.
                self._permutation = numpy_generator(self.seed, "data", epoch).permutation(self.size)
            indices.append(int(self._permutation[position]))
            self.drawn += 1
        return indices

    def steps(self, epochs: float, count: int) -> int:
        """Return how many draws of `count` fit into `epochs`. Raises DataError if not one does."""
        steps = int(self.size * epochs) // count
        if steps < 1:
            raise DataError(
                f"{epochs} epochs of {self.size} rows hold 0 draws of {count}; give more epochs or fewer prompts"
            )
        return steps

    def state_dict(self) -> dict[str, int]:
        """Return all there is to know: size, seed, and how many indices have been drawn."""
        return {"size": self.size, "seed": self.seed, "drawn": self.drawn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state. Raises DataError if it belongs to other data or another seed."""
        check_state(state, self.size, self.seed)
        self.drawn = int(state["drawn"])


def check_count(count: int, size: int) -> None:
    """Raise DataError for a draw of more rows than there are, or of less than one."""
    if not 1 <= count <= size:
        raise DataError(
            f"a draw of {count} rows from a data set of {size}: 0 whole batches in an epoch;"
            f" allowed: 1 to {size}. Set fewer prompts a step, or give more data"
        )


def check_state(state: Mapping[str, Any], size: int, seed: int) -> None:
    """Raise DataError for a saved order of other data or another seed."""
    for name, mine in (("size", size), ("seed", seed)):
        if state[name] != mine:
            raise DataError(f"the saved data order has {name} {state[name]}, this one {mine}: not the same data")
