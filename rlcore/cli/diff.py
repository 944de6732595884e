"""`rlcore diff A B`: two algorithms side by side, and with `--on RUN` their gradients on the same rollouts."""

from __future__ import annotations

import argparse
import textwrap

from rlcore.errors import ConfigError

Row = tuple[str, str, str]
WIDTH = 44
"""Characters of a cell before it is wrapped; a longer word stays whole, to be searched for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    for name in ("one", "other"):
        parser.add_argument(name, help="a registered algorithm, such as grpo or verl-0.9/grpo, or path/to/file.py:name")
    parser.add_argument("--on", metavar="RUN", help="compare their gradients on the rollouts that this run kept")
    parser.add_argument("--step", type=int, default=0, help="with --on: the step of the run (default 0, its first)")
    parser.add_argument("--all", action="store_true", help="show what is alike, too")


def run(args: argparse.Namespace) -> int:
    """Print both, section by section."""
    from rlcore.inspect.algorithm_diff import ComparedAlgorithm, comparison, formulas

    if args.on is None and args.step:
        raise ConfigError(f"--step {args.step} has no effect without --on RUN")
    first, second = ComparedAlgorithm(args.one), ComparedAlgorithm(args.other)
    for title, rows in comparison(first, second).items():
        listed = rows if args.all else [row for row in rows if row[1] != row[2]]
        print(f"{title}:{'' if listed else ' no difference'}")
        print_table((" ", args.one, args.other), listed)
    print("formulas:")
    for name, text in formulas(first, second):
        print(textwrap.indent(f"{name}\n{textwrap.indent(text, '  ')}", "  "))
    if args.on is not None:
        print_gradients(args)
    return 0


def print_table(head: Row, rows: list[Row]) -> None:
    """Print rows under a head, long cells wrapped."""
    if not rows:
        return
    wrap = textwrap.TextWrapper(WIDTH, break_long_words=False, break_on_hyphens=False).wrap
    cells = [tuple(wrap(cell) or [""] for cell in row) for row in (head, *rows)]
    width = [max(len(line) for row in cells for line in row[i]) for i in range(3)]
    for row in cells:
        for i in range(max(map(len, row))):
            line = [(cell[i] if i < len(cell) else "").ljust(width[k]) for k, cell in enumerate(row)]
            print(f"  {'   '.join(line)}".rstrip())


def print_gradients(args: argparse.Namespace) -> None:
    """Print norm and cosine of both gradients on the rollouts that a run kept of a step."""
    from rlcore.inspect.gradients import cosine, gradient_on
    from rlcore.run.run_folder import existing_run

    folder = existing_run(args.on)
    first, second = (gradient_on(folder, name, step=args.step) for name in (args.one, args.other))
    print(f"gradients on the rollouts of step {args.step} of {folder}, before any clipping:")
    rows = [("norm", f"{first.norm:.6g}", f"{second.norm:.6g}")]
    rows += [("rows trained on", str(first.rows), str(second.rows)), ("tokens", str(first.tokens), str(second.tokens))]
    print_table((" ", args.one, args.other), rows)
    print(f"  cosine {cosine(first, second):.6f}")
