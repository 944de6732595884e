"""`rlcore replay RUN/failed/step_N --check`: which component of a failed step gave what is not finite."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.cli.shared import run_folder
from rlcore.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor

    from rlcore.batch import Batch
    from rlcore.graph import Node, Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("step", help="the folder of a failed step: RUN/failed/step_N")
    parser.add_argument(
        "--check",
        action="store_true",
        help="name the first component whose output is not finite (exit status 1 if there is one)",
    )


def run(args: argparse.Namespace) -> int:
    """Print what the step holds, or the first component at fault."""
    from rlcore import checkpoint
    from rlcore.batch import Batch
    from rlcore.config import load
    from rlcore.run import Run

    folder = Path(args.step).expanduser().resolve()
    if not folder.is_dir() or "_" not in folder.name:
        there = ", ".join(sorted(p.name for p in folder.parent.glob("step_*"))) if folder.parent.is_dir() else ""
        raise CheckpointError(f"{args.step!r} is no failed step (RUN/failed/step_N); there are: {there or 'none'}")
    state = checkpoint.load(folder)
    training = Run.of(load([], run_folder(str(folder.parent.parent)) / "config.yaml"), quiet=True)
    plan = training.graph.at(int(folder.name.rpartition("_")[2]))
    batch = Batch(state["batch"], table=plan.table)
    if not args.check:
        print(f"{len(batch)} rows, {batch.tokens_total} tokens; columns: {', '.join(batch.names)}")
        return 0
    fault = in_weights(state) or in_columns(plan, batch) or in_losses(plan, batch, state, training)
    print(fault or "every column and every loss is finite: what was not finite is the gradient")
    return 1 if fault else 0


def in_weights(state: dict[str, Any]) -> str:
    """Return which role's weights are not finite, or an empty string."""
    for role, saved in state["trainers"].items():
        for name, value in saved["model"].items():
            if value.is_floating_point() and not bool(value.isfinite().all()):
                return f"weights of {role}: {name} is not finite before the update"
    return ""


def in_columns(plan: Plan, batch: Batch) -> str:
    """Return the first node, in the order of the graph, that wrote something not finite, or an empty string."""
    for node in plan.nodes:
        for column in node.writes:
            if column in batch.names and column not in ("score", "scores") and (where := _place(batch, column)):
                return f"{_named(node)}: {column} is not finite {where}"
    return ""


def _place(batch: Batch, column: str) -> str:
    """Return where a column is not finite among the rows that were scored, or an empty string."""
    from rlcore.execute.border import scored_sessions

    value: Tensor = batch[column]
    if not hasattr(value, "is_floating_point") or not value.is_floating_point():
        return ""
    bad = ~value.isfinite()
    if bad.dim():
        bad &= scored_sessions(batch).view(-1, *([1] * (bad.dim() - 1)))
    if not bool(bad.any()):
        return ""
    first = bad.nonzero()[0].tolist() if bad.dim() else []
    return " ".join(f"{word} {place}" for word, place in zip(("in row", "at token"), first, strict=False))


def _named(node: Node) -> str:
    from rlcore.component import name_of

    return f"node {node.name} ({name_of(node.call)})" if callable(node.call) else f"node {node.name}"


def in_losses(plan: Plan, batch: Batch, state: dict[str, Any], training: Any) -> str:
    """Compute every loss again from the saved weights; return the first that is not finite, or an empty string."""
    from rlcore.component import invoke, name_of
    from rlcore.train.terms import plan_update

    loaded = training.load()
    for role, saved in state["trainers"].items():
        loaded.trainers[role].load_state_dict(saved)
    for node in plan.nodes:
        if node.view != "update":
            continue
        update = plan_update(node.call, plan.table)
        wanted = {**update.current, **update.offers}
        made = loaded.trainers[node.role].forward(batch, wanted, temperature=training.settings.sampling.temperature)
        full = batch.assign(made)
        for column in made:
            if where := _place(full, column):
                return f"node {node.name}: {column} of the weights of {node.role} is not finite {where}"
        columns = {**state["scalars"], **{name: full[name] for name in full.names}}
        for term in update.terms:
            result = invoke(term.loss, columns)
            values = result if not isinstance(result, tuple) else result[0]
            bad = ~values.isfinite()
            if bool(bad.any()):
                return f"node {node.name}: loss {name_of(term.loss)} is not finite in row {int(bad.nonzero()[0][0])}"
    return ""
