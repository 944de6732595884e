"""The command line: `rlcore COMMAND`. One command a file; each imports what it needs when it runs.

A package brings a command of its own by an entry point of the group `rlcore.commands`, which names its module.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from rlcore.errors import RegistryError, RLCoreError, nearest

COMMANDS = {
    "train": "train a model by reinforcement learning; without arguments, the default run",
    "sft": "train a model on completions alone (supervised)",
    "eval": "grade a run's model, or any model, on held-out problems",
    "check": "check a whole configuration without loading a model",
    "graph": "print the graph of a configuration: what runs, what it reads, which models it loads",
    "info": "show a component, kind, column, setting or protocol: what it reads, its options, where it comes from",
    "diff": "show two algorithms side by side; with --on RUN also their gradients on the same rollouts",
    "plugins": "list what is installed, from where, and what is broken and why",
    "rollouts": "read samples of a run",
    "reward": "try a reward on completions; with --audit on adversarial ones",
    "replay": "look into a step whose update was not finite",
    "new": "write a package of your own: rlcore new plugin NAME --kind KIND, with --kind as often as you like",
    "model": "fetch or make a model and print its folder",
}
"""Every command of the core, with its line of help; its module has `add_arguments(parser)` and `run(args) -> int`."""

EPILOG = "RLCORE_TRACEBACK=1 shows where an error arose."


@functools.cache
def further_commands() -> Mapping[str, EntryPoint]:
    """Return the commands that packages add, by name; they cannot replace those of the core."""
    return {entry.name: entry for entry in entry_points(group="rlcore.commands") if entry.name not in COMMANDS}


def module_of(command: str) -> Any:
    """Return a command's module. Raises RegistryError for one of a package that cannot be imported."""
    if command in COMMANDS:
        return importlib.import_module(f"rlcore.cli.{command}")
    entry = further_commands()[command]
    try:
        return entry.load()
    except Exception as error:  # whatever the package raises, the command is named
        raise RegistryError(f"command {command!r}: {entry.value} cannot be imported: {error!r}") from error


def help_of(command: str) -> str:
    """Return a command's line of help; for a package's command it is from the first line of its module's docstring."""
    if command in COMMANDS:
        return COMMANDS[command]
    try:
        return (module_of(command).__doc__ or "").partition("\n")[0].partition(": ")[2].rstrip(".") or command
    except RegistryError as error:
        return str(error)


class Parser(argparse.ArgumentParser):
    """argparse's parser, which also says which command or option was probably meant."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Print usage and the nearest name, and exit with 2."""
        word = message.partition("invalid choice: '")[2].partition("'")[0]
        near = nearest(word, [*COMMANDS, *further_commands()]) if word else ""
        self.exit(2, f"{self.format_usage()}{self.prog}: {message}{near}\n")


def parser(only: str | None = None) -> Parser:
    """Return the parser; `only` names the one command whose module is imported for its own options."""
    from rlcore import __version__

    top = Parser(
        prog="rlcore",
        description="Reinforcement-learning post-training of language models.",
        epilog=EPILOG,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"rlcore {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name in (*COMMANDS, *further_commands()):
        # A package's module is imported only for its own command and for the list of all commands.
        line = help_of(name) if only in (None, name) or name in COMMANDS else name
        command = commands.add_parser(
            name, help=line, description=line[:1].upper() + line[1:] + ".", epilog=EPILOG, allow_abbrev=False
        )
        if name == only:
            module_of(name).add_arguments(command)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, 1 for what the user can put right, 2 for a wrong command line."""
    words = list(sys.argv[1:] if argv is None else argv)
    command = next((w for w in words if not w.startswith("-")), None)
    try:
        top = parser(command)
    except RegistryError as error:
        print(f"rlcore: {error}", file=sys.stderr)
        return 1
    if not words:
        top.print_help()
        return 0
    try:
        args, further = top.parse_known_args(words)
    except SystemExit as end:
        return int(end.code or 0)
    wrong = [w for w in further if w.startswith("-") or not hasattr(args, "words")]
    if args.command is None or wrong:
        print(
            f"rlcore: unknown argument {wrong[0] if wrong else words[0]!r}; see rlcore {args.command or ''} --help",
            file=sys.stderr,
        )
        return 2
    if further:
        # Settings may stand after an option: `rlcore train --json steps=3`.
        args.words = [*args.words, *further]
    return _run(args)


def _run(args: argparse.Namespace) -> int:
    try:
        return int(module_of(args.command).run(args))
    except RLCoreError as error:
        if os.environ.get("RLCORE_TRACEBACK", "") not in ("", "0"):
            raise
        print(f"rlcore {args.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"rlcore {args.command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of the output (`| head`) has closed it; nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
