"""Steps that were kept because an update was not finite: which component was the first whose output is no number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rlcore import checkpoint
from rlcore.batch import Batch
from rlcore.columns import TOKEN
from rlcore.component import name_of
from rlcore.errors import CheckpointError
from rlcore.execute.border import voting_rows
from rlcore.execute.local import renamed
from rlcore.graph import Node, Plan
from rlcore.protocols import Update
from rlcore.seeding import stream
from rlcore.train.trainer import TorchTrainer

if TYPE_CHECKING:
    from rlcore.run import Run


def run_of(path: str | Path) -> Path:
    """Return the run that a kept step belongs to. Raises CheckpointError if it is none."""
    step = Path(path).expanduser().resolve()
    reason = checkpoint.fault(step)
    if reason is not None or step.parent.name != "failed":
        raise CheckpointError(
            f"{path} is no kept step (RUN/failed/step_N): {reason or 'it does not stand in a folder `failed`'}"
        )
    return step.parent.parent


def first_not_finite(path: str | Path, run: Run) -> str:
    """Return one line naming the first component whose output is not finite, in the order of the graph."""
    state = checkpoint.load(Path(path).expanduser().resolve())
    plan = run.graph.resolve()
    batch = Batch(state["batch"], table=plan.table)
    for node in plan.nodes:
        found = _bad_column(node, plan, batch)
        if found:
            return found
    loaded = run.load()
    for node in plan.nodes:
        if node.view == "update":
            found = _bad_update(node, batch, state, loaded.trainers[node.role], run)
            if found:
                return found
    return "every component's output is finite in this replay"


def _bad_column(node: Node, plan: Plan, batch: Batch) -> str | None:
    votes = voting_rows(batch)
    for name in node.writes:
        if name not in batch or batch.table[name].dtype != "float":
            continue
        values = batch.stored(name)
        rows = batch.row_of_token if batch.table[name].dims == TOKEN else torch.arange(len(batch))
        # An unscored row's NaN score is what it should be.
        bad = ~torch.isfinite(values.reshape(len(rows), -1)).all(dim=1) & votes[rows]
        if bool(bad.any()):
            what = name_of(node.call) if callable(node.call) else node.kind
            return f"node {node.name!r} ({what}): column {name!r} is not finite at row {int(rows[bad][0])}"
    return None


def _bad_update(node: Node, batch: Batch, state: Mapping[str, Any], trainer: TorchTrainer, run: Run) -> str | None:
    trainer.load_state_dict(state["trainers"][node.role])
    rows = renamed(batch, node)
    temperature = run.settings.sampling.temperature
    names = {
        c.name: c.readout
        for c in batch.table.values()
        if c.current and c.readout in trainer.readouts and c.readout is not None
    }
    for column, values in trainer.forward(rows, names, temperature=temperature).items():
        if not bool(torch.isfinite(values).all()):
            row = int(batch.row_of_token[~torch.isfinite(values)][0])
            return f"the weights of role {node.role!r}: {column!r} is not finite at row {row}"
    update: Update = node.call
    for term in update.terms:
        trainer.load_state_dict(state["trainers"][node.role])
        result = trainer.update(
            rows,
            replace(update, terms=(term,)),
            seed=stream(state["scalars"]["seed"], node.name),
            temperature=temperature,
            scalars=state["scalars"],
            max_new_tokens=run.settings.max_new_tokens,
        )
        if not result.finite:
            loss = name_of(term.loss)
            return f"node {node.name!r}: the loss {loss!r} (term {term.name or loss!r}) or its gradient is not finite"
    return None
