"""`rlcore graph`: print the graph of a configuration, as a table or a Mermaid chart."""

from __future__ import annotations

import argparse

from rlcore.cli.shared import add_experiment, load_experiment, prints_configuration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_experiment(parser)
    parser.add_argument("--mermaid", action="store_true", help="as a Mermaid flow chart")


def run(args: argparse.Namespace) -> int:
    """Print it."""
    if prints_configuration(args):
        return 0
    plan = load_experiment(args).graph.resolve()
    print(plan.mermaid() if args.mermaid else plan.show())
    return 0
