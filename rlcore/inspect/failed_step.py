"""A step that was kept because an update was not finite: which component was the first whose output is no number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rlcore import checkpoint
from rlcore.batch import Batch
from rlcore.calling import call
from rlcore.columns import TOKEN
from rlcore.component import name_of, reads
from rlcore.execute.adapters import trainable_batch, voting_rows
from rlcore.execute.local import renamed
from rlcore.graph import Node, Plan
from rlcore.protocols import Term, Trainer, Update
from rlcore.seeding import stream
from rlcore.train.rows_view import RowsView
from rlcore.train.update import rows_view
from rlcore.train.update_plan import plan_update

if TYPE_CHECKING:
    from rlcore.run import Run

State = Mapping[str, Any]


def load_failed_step(folder: Path, run: Run) -> tuple[Plan, Batch, State]:
    """Return the plan, rows and state of a failed step. Raises CheckpointError if it is not whole."""
    state = {**checkpoint.load(folder), "folder": folder}
    plan = run.graph.of_policy(state["policy"]).at(int(folder.name.rpartition("_")[2]))
    return plan, Batch(state["batch"], table=plan.table), state


def first_not_finite(plan: Plan, batch: Batch, state: State, run: Run) -> str:
    """Return a line on the first that is not finite: weights, columns in the order of the graph, then losses.

    An empty string if all are: a replay need not fail where a device's arithmetic differs.
    """
    return next(_find_faults(plan, batch, state, run), "")


def _find_faults(plan: Plan, batch: Batch, state: State, run: Run) -> Iterator[str]:
    for role in checkpoint.roles(state["folder"]):
        for name, value in (checkpoint.load_entry(state["folder"] / role, "model") or {}).items():
            if value.is_floating_point() and not bool(value.isfinite().all()):
                yield f"weights of {role}: {name} is not finite before the update"
    for node in plan.nodes:
        yield from _faults_in_columns(node, batch)
    # Only what follows needs a model.
    loaded = run.load()
    for node in plan.nodes:
        if node.view == "update":
            yield from _faults_in_update(node, batch, state, loaded.trainers[node.role], run)


def _faults_in_columns(node: Node, batch: Batch) -> Iterator[str]:
    votes = voting_rows(batch)
    for name in node.writes:
        if name not in batch or batch.table[name].dtype != "float":
            continue
        values = batch.stored(name)
        rows = batch.row_of_token if batch.table[name].dims == TOKEN else torch.arange(len(batch))
        # An unscored row's NaN score is what it should be.
        bad = ~torch.isfinite(values.reshape(len(rows), -1)).all(dim=1) & votes[rows]
        if bool(bad.any()):
            component = f" ({name_of(node.call)})" if callable(node.call) else ""
            yield f"node {node.name}{component}: {name} is not finite in row {int(rows[bad][0])}"


def _faults_in_update(node: Node, batch: Batch, state: State, trainer: Trainer, run: Run) -> Iterator[str]:
    update: Update = node.call
    rows = trainable_batch(renamed(batch, node))
    temperature = run.settings.sampling.temperature
    seen = plan_update(update, batch.table)
    checkpoint.load_trainer(trainer, state["folder"] / node.role)
    readouts = trainer.forward(rows, {**seen.current, **seen.provides}, temperature=temperature)
    for column, values in readouts.items():
        bad = ~torch.isfinite(values)
        if bool(bad.any()):
            place = int(rows.row_of_token[bad][0])
            yield f"node {node.name}: {column} of the weights of {node.role} is not finite in row {place}"
    mask = rows.flat("mask") & rows.flat("sampled")
    live = {column: values[mask] for column, values in readouts.items()}
    view = rows_view(rows, mask, live=live, scalars=state["scalars"], device=mask.device)
    for term in seen.terms:
        loss = name_of(term.loss)
        row = _bad_row(term, view)
        if row is not None:
            yield f"node {node.name}: loss {loss} is not finite in row {row}"
        checkpoint.load_trainer(trainer, state["folder"] / node.role)
        result = trainer.update(
            rows,
            replace(update, terms=(term,)),
            seed=stream(state["scalars"]["seed"], node.name),
            temperature=temperature,
            scalars=state["scalars"],
            max_new_tokens=run.settings.max_new_tokens,
        )
        if not result.finite:
            yield f"node {node.name}: the gradient of loss {loss} is not finite"


def _bad_row(term: Term, view: RowsView) -> int | None:
    """Return the first row in which a loss is not finite on the mask."""
    if any(read.name not in view and not read.optional for read in reads(term.loss)):
        # What a select writes is there only inside an update.
        return None
    output = call(term.loss, view, place=f"loss {term.name or name_of(term.loss)!r}")
    values: Tensor = output if isinstance(output, Tensor) else output.loss
    bad = ~torch.isfinite(values) & (view["mask"] if values.dim() == 2 else view["mask"].any(dim=1))
    return int(bad.nonzero()[0][0]) if bool(bad.any()) else None
