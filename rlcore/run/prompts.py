"""Drawing prompts: in the order of an `Order`, those whose length fits, and scores for an order that uses them."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlcore.batch import Batch
from rlcore.data import ObservesScores, Order, Row, check_room
from rlcore.errors import DataError
from rlcore.execute.grader import Grader
from rlcore.run.build import fit_row
from rlcore.services import next_rows
from rlcore.settings import Settings
from rlcore.train.model import LanguageModel

log = logging.getLogger("rlcore")


@dataclass
class PromptFitter:
    """Does for rows that are read as they are drawn what `build.fit_rows` does for rows in memory."""

    columns: Sequence[str]
    model: LanguageModel
    settings: Settings
    left_out: int = 0
    shortest: int | None = None

    def __call__(self, row: Row) -> Row | None:
        """Return a row with every column of the data, or None if its prompt is to be left out."""
        complete = {**dict.fromkeys(self.columns), **row}
        limit = self.settings.max_prompt_tokens
        fitted, length = fit_row(complete, self.model, self.settings)
        if fitted is None:
            if not self.left_out:
                log.warning(
                    "a prompt of %d tokens was drawn, more than max_prompt_tokens=%d: it is passed over for the next,"
                    " and so are others like it",
                    length,
                    limit,
                )
            self.left_out += 1
            self.shortest = min(self.shortest or length, length)
            return None
        check_room(min(length, limit), self.settings.max_new_tokens, self.model.max_positions)
        return fitted

    def none_fits(self, misses: int) -> DataError:
        """Return the error for data of which no row of a whole epoch fits."""
        return DataError(
            f"no prompt is left: {misses} rows in a row have more than max_prompt_tokens="
            f"{self.settings.max_prompt_tokens} tokens (the shortest {self.shortest})"
        )


@dataclass
class PromptSource:
    """Draws prompts and gives each its group id, which is unique in the run.

    Attributes:
        groups: how many groups were drawn: the next group id.
        fit: for rows that stay in their file; one whose prompt does not fit is replaced by the next.
        pending: group id -> row index of groups that have no scores yet, for an order that uses scores.
    """

    rows: Sequence[Row]
    order: Order
    groups: int = 0
    fit: PromptFitter | None = None
    pending: dict[int, int] = field(default_factory=dict)

    def __call__(self, count: int) -> list[tuple[int, Mapping[str, Any]]]:
        """Return (group id, data row) pairs. Raises DataError if not one row of a whole epoch fits."""
        drawn: list[tuple[int, Mapping[str, Any]]] = []
        for asked in next_rows(self.order, count, len(self.rows)):
            index, row = self._fitting(asked)
            drawn.append((self.groups, row))
            if self.observes:
                self.pending[self.groups] = index
            self.groups += 1
        return drawn

    def state_dict(self) -> dict[str, Any]:
        """Return the order's state, the next group id, and the groups that wait for their scores."""
        return {
            "order": self.order.state_dict(),
            "groups": self.groups,
            "pending": [list(pair) for pair in self.pending.items()],
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.order.load_state_dict(saved["order"])
        self.groups = int(saved["groups"])
        self.pending = {int(group): int(index) for group, index in saved["pending"]}

    @property
    def observes(self) -> bool:
        """Return whether the order uses scores."""
        return isinstance(self.order, ObservesScores)

    def observe(self, groups: Sequence[int], scores: Sequence[float]) -> None:
        """Give the order the scores of each group that it drew; others (of a replay, say) are ignored."""
        by_group: dict[int, list[float]] = {}
        for group, score in zip(groups, scores, strict=True):
            by_group.setdefault(group, []).extend([] if math.isnan(score) else [score])
        for group, known in by_group.items():
            if group in self.pending:
                assert isinstance(self.order, ObservesScores)
                self.order.observe(self.pending.pop(group), known)

    def _fitting(self, index: int) -> tuple[int, Row]:
        row = self.rows[index]
        if self.fit is None:
            return index, row
        for _ in range(len(self.rows)):
            fitted = self.fit(row)
            if fitted is not None:
                return index, fitted
            index = next_rows(self.order, 1, len(self.rows))[0]
            row = self.rows[index]
        raise self.fit.none_fits(len(self.rows))


class ObservingGrader:
    """A grader that also gives the scores to the order of prompts. Evaluations use the plain grader."""

    def __init__(self, grader: Grader, prompts: PromptSource) -> None:
        self._grader, self._prompts = grader, prompts

    def score(self, batch: Batch) -> dict[str, Any]:
        """Return what the grader gives."""
        written = self._grader.score(batch)
        first: dict[int, int] = {}
        for row, session in enumerate(batch["session"].tolist()):
            first.setdefault(session, row)  # a session's score stands on all its rows
        rows = list(first.values())
        self._prompts.observe(batch["group"][rows].tolist(), written["score"][rows].tolist())
        return written

    def greedy(self, batch: Batch, completions: Mapping[int, list[int] | None]) -> list[float]:
        """Return what the grader gives."""
        return self._grader.greedy(batch, completions)
