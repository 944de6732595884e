"""`rlcore check`: everything that can be known before a model's weights load."""

from __future__ import annotations

import argparse
import gc

from rlcore.cli.shared import add_experiment, load_experiment, prints_configuration, split_words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_experiment(parser, sweeps=True)


def run(args: argparse.Namespace) -> int:
    """Print the configuration and what was checked. Raises what a run would raise."""
    if prints_configuration(args):
        return 0
    # A million objects are made and next to none is garbage: to look for it, now and at the end, takes a second.
    gc.disable()
    try:
        return check(args)
    finally:
        gc.freeze()
        gc.enable()


def check(args: argparse.Namespace) -> int:
    """Check, print the configuration and what was found, and return 0."""
    if args.multirun:
        from rlcore.cli.sweep import check_sweep

        return check_sweep(*split_words(args.words), args.config_dir)
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
