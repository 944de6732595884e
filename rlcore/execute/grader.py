"""From rows to scores: the reward manager is called with Python values, once per session."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from rlcore.batch import Batch, first_row_by_id
from rlcore.errors import RewardError, counted
from rlcore.protocols import Graded, Message, RewardManager, Sample, Stop
from rlcore.services import grade_samples


@dataclass
class Grader:
    """Scores sessions with a manager. `decode` turns sampled ids into text, `show` a prompt into its text.

    `components` are the names of the columns of `score_components`: those that the manager declares as
    `component_names`, and after them those that grades have brought, in the order in which they came. A name travels
    with its value, so that a component that first shows in a later batch gets a column of its own.
    """

    manager: RewardManager
    decode: Callable[[Sequence[int]], str]
    show: Callable[[Any], str]
    components: tuple[str, ...] = ()

    def grade(self, batch: Batch) -> list[Graded]:
        """Return the grade of each row; every row of a session has the session's.

        A session that its environment ended by an error is not graded: its score is NaN.

        How many may fail is the manager's to say; RewardError is raised where every one did.
        """
        sessions: dict[int, list[int]] = {}
        for row, session in enumerate(batch["session"].tolist()):
            sessions.setdefault(session, []).append(row)
        stops = batch["stop"].tolist() if "stop" in batch else [int(Stop.FINISHED)] * len(batch)
        whole = {s: rows for s, rows in sessions.items() if stops[rows[0]] != Stop.ENVIRONMENT_ERROR}
        grades = grade_samples(self.manager, [self._sample(batch, rows) for rows in whole.values()])
        self._refuse_failures(grades)
        by_session = dict.fromkeys(sessions, Graded(math.nan)) | dict(zip(whole, grades, strict=True))
        return [by_session[session] for session in batch["session"].tolist()]

    def score(self, batch: Batch) -> dict[str, Any]:
        """Return `score` [B], and `score_components` [B, K] if the reward names components. Raises as `grade` does."""
        graded = self.grade(batch)
        written: dict[str, Any] = {"score": torch.tensor([g.score for g in graded], dtype=torch.float32)}
        found = {name for g in graded for name in g.components}.union(self.manager.component_names)
        self.components += tuple(sorted(found.difference(self.components)))
        if self.components:
            values = [[float(g.components.get(name, math.nan)) for name in self.components] for g in graded]
            written["score_components"] = torch.tensor(values, dtype=torch.float32)
        return written

    def greedy(self, batch: Batch, completions: Mapping[int, list[int] | None]) -> list[float]:
        """Return the score of each group's greedy completion, per row of the batch; NaN where there is none."""
        samples = {
            group: self._row_sample(batch, row, self.decode(ids))
            for group, row in first_row_by_id(batch["group"]).items()
            if (ids := completions[group]) is not None
        }
        grades = dict(zip(samples, grade_samples(self.manager, list(samples.values())), strict=True))
        return [grades[group].score if group in grades else math.nan for group in batch["group"].tolist()]

    def _sample(self, batch: Batch, rows: list[int]) -> Sample:
        """Return what is graded of a session: its turns, a line each, and the prompt and data of its last segment."""
        if "segment" in batch:
            rows = sorted(rows, key=lambda row: int(batch["segment"][row]))
        # Turn by turn: decoding ends at the first end token, and each turn has its own.
        turns = [self.decode(ids) for row in rows for ids in self._drawn(batch, row)]
        conversation = batch["conversation"][rows[-1]] if "conversation" in batch else ()
        return self._row_sample(batch, rows[-1], "\n".join(turns), conversation)

    def _row_sample(self, batch: Batch, row: int, completion: str, conversation: Sequence[Message] = ()) -> Sample:
        data = batch.data_row(row)
        prompt = data.get("prompt", "")
        return Sample(self.show(prompt), completion, prompt_messages(prompt), data, conversation)

    @staticmethod
    def _drawn(batch: Batch, row: int) -> list[list[int]]:
        """Return the ids of each turn of a row: what was drawn without anything observed between."""
        start = int(batch.length[:row].sum())
        piece = slice(start, start + int(batch.length[row]))
        drawn = zip(batch.flat("tokens")[piece].tolist(), batch.flat("sampled")[piece].tolist(), strict=True)
        return [
            [token for token, _ in turn] for sampled, turn in itertools.groupby(drawn, lambda one: one[1]) if sampled
        ]

    def _refuse_failures(self, grades: Sequence[Graded]) -> None:
        """Raise RewardError where every sample failed."""
        failed = [g for g in grades if g.error is not None]
        if grades and len(failed) == len(grades):
            raise RewardError(
                f"none of {counted(len(grades), 'sample')} could be scored; the first error: {failed[0].error}"
            )


def prompt_messages(prompt: Any) -> list[Any] | None:
    """Return the messages of a prompt; None for text, and for the ids of a prompt that was cut."""
    return prompt if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else None
