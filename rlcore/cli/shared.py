"""Functions of several commands: reading `file.yaml key=value ...`, and printing results."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.errors import ConfigError

if TYPE_CHECKING:
    from rlcore.experiment import Experiment


VALUES = """values: key=value overrides what a file says, e.g. algorithm=dapo algorithm.group_size=4
advantage=[gae,whiten] filter=null reward=path/to/file.py:function sampling.temperature=0.8. """


def add_experiment(parser: argparse.ArgumentParser, *, sweeps: bool = False) -> None:
    """Add the arguments that name an experiment, and those that show its configuration instead of using it."""
    parser.epilog = VALUES + (parser.epilog or "")
    parser.add_argument(
        "words", nargs="*", metavar="file.yaml key=value", help="an experiment's file, and settings that override it"
    )
    parser.add_argument(
        "--config-dir",
        action="append",
        default=[],
        metavar="FOLDER",
        help="a folder of your own options: FOLDER/loss/tight.yaml is chosen by loss=tight",
    )
    parser.add_argument(
        "--cfg",
        choices=("job", "hydra", "all"),
        help="print the configuration and do nothing else: what was said and all settings, Hydra's own, or both",
    )
    parser.add_argument("--resolve", action="store_true", help="with --cfg: every option of every component, too")
    if sweeps:
        parser.add_argument(
            "-m", "--multirun", action="store_true", help="a sweep: a run for each of several values (seed=1,2,3)"
        )


def split_words(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """Return the overrides and the file among a command's words. Raises ConfigError for a word that is neither."""
    from rlcore.registry import names

    overrides: list[str] = []
    files: list[Path] = []
    for word in words:
        path = Path(word)
        named = word.endswith((".yaml", ".yml")) and (path.is_file() or "=" not in word)
        if named or ("=" not in word and not word.startswith("~") and path.exists()):
            files.append(path)
        elif "=" in word or word.startswith("~"):
            overrides.append(word)
        elif word in names("experiment"):
            files.append(path)
        else:
            raise ConfigError(
                f"{word!r} is neither a file that exists, nor a registered experiment "
                f"({', '.join(names('experiment'))}), nor of the form key=value"
            )
    if len(files) > 1:
        raise ConfigError(f"two files, {files[0]} and {files[1]}; an experiment is one file with key=value beside it")
    return overrides, files[0] if files else None


def load_experiment(args: argparse.Namespace) -> Experiment:
    """Return the experiment that a command's words name."""
    from rlcore.config import load

    overrides, file = split_words(args.words)
    return load(overrides, file, folders=args.config_dir)


def prints_configuration(args: argparse.Namespace) -> bool:
    """Print the configuration if `--cfg` was given, and return whether it was."""
    if args.cfg is None:
        if args.resolve:
            raise ConfigError("--resolve has no effect without --cfg job")
        return False
    from rlcore.config import to_yaml
    from rlcore.run.run_folder import plain

    if args.cfg in ("job", "all"):
        experiment = load_experiment(args)
        print(to_yaml(plain(experiment.resolved if args.resolve else experiment.config)), end="")
    if args.cfg in ("hydra", "all"):
        from omegaconf import OmegaConf

        from rlcore.config.compose import hydra_of
        from rlcore.config.load import read_source
        from rlcore.config.overrides import parse_overrides

        words, file = split_words(args.words)
        line = parse_overrides(words)
        print(OmegaConf.to_yaml({"hydra": hydra_of(read_source(line, file, args.config_dir), line)}), end="")
    return True


def as_json(value: Mapping[str, Any], *, ascii_only: bool = False) -> str:
    """Return one line of strict JSON: what is not finite becomes null.

    `ascii_only` escapes all else: what data holds must neither steer a terminal nor stop an encoder.
    """
    return json.dumps(strict(value), ensure_ascii=ascii_only, allow_nan=False)


def strict(value: Any) -> Any:
    """Return a value as strict JSON holds it: what is not finite is null, and what JSON does not know is text."""
    if isinstance(value, Mapping):
        return {str(k): strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [strict(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool) or value is None else str(value)


def number(value: Any) -> str:
    """Return a number for a terminal, or a dash."""
    return f"{value:.3f}" if isinstance(value, int | float) and not isinstance(value, bool) else "-"
