"""`rlcore check`: everything that can be known before a model loads."""

from __future__ import annotations

import argparse
from pathlib import Path

from rlcore.cli.shared import add_experiment, load_experiment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_experiment(parser)


def run(args: argparse.Namespace) -> int:
    """Check and say what was found; what is wrong is raised."""
    experiment = load_experiment(args.words)
    from rlcore.registry import names
    from rlcore.run import Run
    from rlcore.weights.sources import HUBS, resolve_model

    source = experiment.settings.model.source
    fetched = source.partition(":")[0] in HUBS or (source in names("model") and not Path(source).exists())
    place = f"{source} (fetched at first use)" if fetched else str(resolve_model(source))
    for line in Run.of(experiment, quiet=True).check():
        print(line)
    print(f"model: {place}")
    print("ok")
    return 0
