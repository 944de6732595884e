"""`rlcore rollouts RUN`: samples, read in the terminal."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlcore.cli.shared import number
from rlcore.errors import RunError, counted, printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", help="a run's folder")
    parser.add_argument("--step", type=int, help="of this step; without it, of the last one")
    order = parser.add_mutually_exclusive_group()
    order.add_argument("--worst", action="store_true", help="lowest scores first")
    order.add_argument("--best", action="store_true", help="highest scores first")
    parser.add_argument("--count", type=int, default=5, help="how many (default 5)")


def run(args: argparse.Namespace) -> int:
    """Print them."""
    from rlcore.run.run_folder import existing_run

    path = existing_run(args.run) / "rollouts.jsonl"
    rows, steps = _of_step(path, args.step)
    if not rows:
        available = f"steps {min(steps)} to {max(steps)}" if steps else "none"
        raise RunError(
            f"{path} has no rows of step {args.step}; it has: {available}"
            if args.step is not None
            else f"{path} has no rows yet"
        )
    if args.worst or args.best:
        # Unscored rows come last in either order.
        rows.sort(key=lambda row: (row.get("score") is None, (row.get("score") or 0.0) * (1 if args.worst else -1)))
    chosen = rows[: max(args.count, 0)]
    for row in chosen:
        _show(row)
    scores = [row["score"] for row in rows if row.get("score") is not None]
    mean = sum(scores) / len(scores) if scores else None
    if (args.worst or args.best) and len(scores) > 1 and len(set(scores)) == 1:
        word = "--worst" if args.worst else "--best"
        print(f"every scored sample of this step has the score {number(scores[0])}: {word} has nothing to sort")
    print(f"{len(chosen)} of {counted(len(rows), 'sample')} of step {rows[0]['step']}, mean score {number(mean)}")
    return 0


def _of_step(path: Path, step: int | None) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the rows of a step (None: the last), and the file's first and last step."""
    rows: list[dict[str, Any]] = []
    ends: list[int] = []
    for row in _rows(path):
        number_of = int(row["step"])
        ends = [*ends[:1], number_of]
        if step is None and rows and rows[-1]["step"] != number_of:
            rows = []
        if step is None or number_of == step:
            rows.append(row)
    return rows, ends


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise RunError(f"there is no {path}: the run has not finished a step, or its rollouts were not kept")
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                continue  # a run that is writing, or was killed while writing, leaves a torn last line
            if isinstance(row, dict) and "step" in row:
                yield row


def _show(row: dict[str, Any]) -> None:
    about = [f"{name} {number(row[name])}" for name in ("score", "reward", "advantage") if row.get(name) is not None]
    about += [f"{name} {row[name]}" for name in ("tokens", "stop", "group") if name in row]
    print(f"--- {'  '.join(about)}")
    for name in ("prompt", "completion", "target"):
        if row.get(name) is not None:
            # Only line breaks are printed as they are; other control characters of a completion are escaped.
            lines = [printable(line) for line in str(row[name]).split("\n")]
            print(
                f"{name}: {lines[0]}"
                if len(lines) == 1
                else f"{name}:\n" + "\n".join(f"  {text_line}" for text_line in lines)
            )
    if row.get("components"):
        print("components: " + ", ".join(f"{k} {number(v)}" for k, v in row["components"].items()))
