"""`rlcore check`: everything that can be known before a model's weights load."""

from __future__ import annotations

import argparse

from rlcore.cli.shared import add_experiment, load_experiment, prints_configuration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_experiment(parser)


def run(args: argparse.Namespace) -> int:
    """Print the configuration and what was checked. Raises what a run would raise."""
    if prints_configuration(args):
        return 0
    experiment = load_experiment(args)
    from rlcore.config import to_yaml
    from rlcore.run import Run
    from rlcore.run.base_model import local_model_folder
    from rlcore.run.run_folder import plain

    place = local_model_folder(experiment) or f"{experiment.settings.model.source} (fetched at first use)"
    lines = Run.of(experiment, quiet=True).check()
    print(to_yaml(plain(experiment.resolved)))
    for line in lines:
        print(line)
    print(f"model: {place}")
    print("ok")
    return 0
