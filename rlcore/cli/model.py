"""`rlcore model NAME`: fetch or make a model once, and print its folder."""

from __future__ import annotations

import argparse
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("name", help="hf:ORG/NAME, modelscope:ORG/NAME, a registered model, or a folder")


def run(args: argparse.Namespace) -> int:
    """Print the folder that holds the model; progress goes to standard error."""
    from rlcore.weights import resolve_model

    print(resolve_model(args.name, report=lambda line: print(line, file=sys.stderr, flush=True)))
    return 0
