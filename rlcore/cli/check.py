"""`rlcore check`: everything that can be known before a model's weights load."""

from __future__ import annotations

import argparse

from rlcore.cli.shared import add_experiment, load_experiment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_experiment(parser)


def run(args: argparse.Namespace) -> int:
    """Check and say what was found; what is wrong is raised."""
    experiment = load_experiment(args.words)
    from rlcore.run import Run
    from rlcore.run.start import local_folder

    place = local_folder(experiment) or f"{experiment.settings.model.source} (fetched at first use)"
    for line in Run.of(experiment, quiet=True).check():
        print(line)
    print(f"model: {place}")
    print("ok")
    return 0
