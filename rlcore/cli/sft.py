"""`rlcore sft`: supervised training on completions, without reinforcement learning."""

from __future__ import annotations

import argparse

from rlcore.cli.shared import add_experiment, as_json, load_experiment, prints_configuration
from rlcore.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_experiment(parser)
    parser.add_argument("--json", action="store_true", help="print the losses as one JSON object on the last line")


def run(args: argparse.Namespace) -> int:
    """Train on completions, and say how the loss went."""
    if prints_configuration(args, supervised=True):
        return 0
    experiment = load_experiment(args, supervised=True)
    if not experiment.settings.warm_start.epochs:
        raise ConfigError(
            "supervised training lasts warm_start.epochs, which is 0; set warm_start.epochs=3, for example"
        )
    from rlcore.run import Run

    training = Run.of(experiment)
    losses = training.fit_supervised()
    for name, loss in losses.items():
        print(f"{name}  {loss:.4f}")
    print(f"model: {training.folder}/model")
    if args.json:
        print(as_json({**losses, "run": str(training.folder)}), flush=True)
    return 0
