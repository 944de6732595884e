"""`rlcore eval`: a run's model, or any model, graded on held-out problems."""

from __future__ import annotations

import argparse
from pathlib import Path

from rlcore.cli.shared import add_experiment, as_json, prints_configuration, split_words
from rlcore.errors import RunError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_experiment(parser)
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object on the last line")


def run(args: argparse.Namespace) -> int:
    """Grade and print the figures."""
    from rlcore.config import load
    from rlcore.run import Run
    from rlcore.run.run_folder import existing_run

    if prints_configuration(args):
        return 0
    words = list(args.words)
    folder = next((w for w in words if "=" not in w and Path(w).is_dir()), None)
    if folder is None:
        overrides, file = split_words(words)
        experiment = load(overrides, file, folders=args.config_dir)
    else:
        words.remove(folder)
        place = existing_run(folder)
        experiment = load([*_of_run(place), *split_words(words)[0]], place / "config.yaml", folders=args.config_dir)
    figures = Run.of(experiment).evaluate()
    for name, value in figures.items():
        if not name.endswith("_se"):
            error = figures.get(f"{name}_se")
            print(f"{name:<10} {value:.4g}" + ("" if error is None else f" +/- {error:.2g}"))
    if args.json:
        print(as_json(figures), flush=True)
    return 0


def _of_run(folder: Path) -> list[str]:
    """Return overrides with which a run's configuration uses its trained model. Raises RunError if it has none."""
    model = folder / "model"
    if not (model / "config.json").is_file():
        raise RunError(f"{folder} has no model yet: it is written at the end of a run (rlcore train resume={folder})")
    return [f"model={model}", "warm_start.epochs=0", "start_from=null"]
