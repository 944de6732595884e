"""`rlcore sft`: supervised training on the answers of a data set; short for `rlcore train algorithm=sft`."""

from __future__ import annotations

import argparse

from rlcore.cli import train
from rlcore.cli.shared import add_experiment
from rlcore.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_experiment(parser)
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON object on the last line")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Train on the answers of the data set."""
    if any(word.partition("=")[0] == "algorithm" for word in args.words):
        raise ConfigError("rlcore sft is short for `rlcore train algorithm=sft`; for another one type rlcore train")
    args.words, args.multirun = ["algorithm=sft", *args.words], False
    return train.run(args)
