"""Replay: a run keeps its rollouts, and another one trains on them in place of sampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from rlcore import checkpoint
from rlcore.batch import Batch
from rlcore.columns import ColumnTable
from rlcore.errors import CheckpointError, RunError, counted
from rlcore.execute.rollout import Rollout
from rlcore.graph import NODE_KINDS


def save_batch(folder: Path, step: int, batch: Batch) -> None:
    """Save the rollout of a step: its own columns and those of the data, not what later nodes wrote."""
    drawn = {"group", *NODE_KINDS["rollout"].writes}
    kept = {n: batch.stored(n) for n in batch.names if n in drawn or n.startswith("data.")}
    # Later nodes may have narrowed the mask; when the row was sampled it was `sampled`.
    kept["mask"] = kept["sampled"].clone()
    if "model_inputs" in batch:
        kept["model_inputs"] = batch["model_inputs"]
    checkpoint.save(folder, step, {"batch": kept})


def rollouts_folder(run: Path, policy: str) -> Path:
    """Return the folder in which a run keeps the rollouts of a policy; that of the first one is named by nobody."""
    return run / (f"rollouts_{policy}" if policy else "rollouts")


@dataclass
class ReplayedRollout:
    """Takes the place of a rollout: returns the rows that another run kept of the same step in `folder`."""

    live: ClassVar[bool] = False

    rollout: Rollout
    folder: Path
    step: Callable[[], int]

    @property
    def sampler(self) -> Any:
        """Return the sampler of the run itself."""
        return self.rollout.sampler

    def draw(
        self, groups: Sequence[int], rows: Sequence[Mapping[str, Any]], *, samples: int, table: ColumnTable
    ) -> Batch:
        """Return the kept rows of this step. Raises RunError if they are not as many as this run draws."""
        path = self.folder / f"step_{self.step()}"
        try:
            batch = Batch(checkpoint.load(path)["batch"], table=table)
        except CheckpointError as error:
            raise RunError(
                f"replay: {self.folder} kept no rollouts of step {self.step()} "
                f"(they are kept with save.rollouts=true): {error}"
            ) from error
        kept = torch.unique(batch["group"])
        if len(kept) != len(groups) or len(batch) != len(groups) * samples:
            raise RunError(
                f"replay: step {self.step()} of {self.folder} holds {counted(len(batch), 'row')} of "
                f"{counted(len(kept), 'prompt')}; this run draws "
                f"{counted(len(groups), 'prompt')} x {counted(samples, 'sample')}. "
                f"Set prompts and algorithm.group_size to match"
            )
        return batch

    async def hold(self) -> None:
        """Draw no token until `release`."""
        await self.rollout.hold()

    async def release(self) -> None:
        """Go on after `hold`."""
        await self.rollout.release()

    def greedy(self, groups: Sequence[int], rows: Sequence[Mapping[str, Any]]) -> dict[int, list[int] | None]:
        """Return greedy completions; these are sampled, as they are not kept."""
        return self.rollout.greedy(groups, rows)
