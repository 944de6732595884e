"""`rlcore replay STEP`: show a step whose update was not finite; `--check` names the first component at fault."""

from __future__ import annotations

import argparse
from pathlib import Path

from rlcore.errors import CheckpointError, counted


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
    from rlcore.config import load
    from rlcore.inspect.failed_step import first_not_finite, load_failed_step
    from rlcore.run import Run
    from rlcore.run.run_folder import existing_run

    folder = Path(args.step).expanduser().resolve()
    if not folder.is_dir() or not folder.name.rpartition("_")[2].isdecimal():
        steps = ", ".join(sorted(p.name for p in folder.parent.glob("step_*"))) if folder.parent.is_dir() else ""
        raise CheckpointError(f"{args.step!r} is no failed step (RUN/failed/step_N); there are: {steps or 'none'}")
    training = Run.of(load([], existing_run(str(folder.parent.parent)) / "config.yaml"), quiet=True)
    plan, batch, state = load_failed_step(folder, training)
    if not args.check:
        print(
            f"{counted(len(batch), 'row')}, {counted(batch.tokens_total, 'token')}; columns: {', '.join(batch.names)}"
        )
        return 0
    fault = first_not_finite(plan, batch, state, training)
    print(fault or "every column, every loss and every gradient is finite in this replay")
    return 1 if fault else 0
