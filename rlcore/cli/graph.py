"""`rlcore graph`: the graph of a configuration."""

from __future__ import annotations

import argparse

from rlcore.cli.shared import add_experiment, load_experiment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_experiment(parser)
    parser.add_argument("--mermaid", action="store_true", help="as a Mermaid flow chart")


def run(args: argparse.Namespace) -> int:
    """Print it."""
    from rlcore.registry import registry

    experiment = load_experiment(args.words)
    plan = experiment.algorithm.graph(
        reward=experiment.reward, environment=experiment.environment, table=registry().columns
    ).resolve()
    print(plan.mermaid() if args.mermaid else plan.show())
    return 0
