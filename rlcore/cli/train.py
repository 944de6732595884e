"""`rlcore train`: train a model, or with `-m` several in a sweep, and suggest what to try next."""

from __future__ import annotations

import argparse

from rlcore.cli.shared import (
    add_experiment,
    as_json,
    load_experiment,
    number,
    prints_configuration,
    split_words,
)

OTHER = "leave_one_out"
"""The advantage that is suggested for a comparison, for algorithms without a critic."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_experiment(parser, sweeps=True)
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON object on the last line")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Train, and print the result and what to try next."""
    if prints_configuration(args):
        return 0
    if args.multirun:
        from rlcore.cli.sweep import sweep

        return sweep(*split_words(args.words), args.config_dir)
    experiment = load_experiment(args)
    from rlcore.component import name_of
    from rlcore.run import Run
    from rlcore.run.inputs import draws

    trained = Run.of(experiment, quiet=args.quiet).train()
    folder, summary = trained.folder, trained.summary
    before, after = summary.get("success_before"), summary.get("success_after")
    if summary.get("loss_after") is not None:
        print(f"loss on held-out rows: {number(summary['loss_before'])} before, {number(summary['loss_after'])} after")
    if before is not None and after is not None:
        print(f"success on held-out problems: {number(before)} before, {number(after)} after ({after - before:+.3f})")
    print(f"run: {folder}")
    if not summary.get("stopped"):
        suggested = [f"rlcore rollouts {folder} --worst"] if draws(experiment.graph) else []
        suggested += [f"rlcore eval {folder}"] if after is not None or summary.get("loss_after") is not None else []
        named = " run.name=another" if experiment.settings.run.name or experiment.settings.resume else ""
        has = {name_of(part) for part in getattr(experiment.algorithm, "chain", ())}
        if has and OTHER not in has and "critic" not in experiment.graph.resolve().roles:
            suggested.append(f"rlcore train {folder}/config.yaml advantage={OTHER}{named}")
        if suggested:
            print("\n  ".join(["worth trying:", *suggested]))
    if args.json:
        print(as_json(summary), flush=True)
    return 0
