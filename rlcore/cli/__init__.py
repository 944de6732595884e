"""The command line: `rlcore COMMAND`. One command a file; each imports what it needs when it runs."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from rlcore.errors import RLCoreError, nearest

COMMANDS = {
    "train": "train a model by reinforcement learning; without arguments, the default run",
    "sft": "train a model on completions alone (supervised)",
    "eval": "grade a run's model, or any model, on held-out problems",
    "check": "check a whole configuration without loading a model",
    "graph": "print the graph of a configuration: what runs, what it reads, which models it loads",
    "info": "show a part: what it reads, its options, where it comes from",
    "diff": "show two algorithms side by side; with --on RUN also their gradients on the same rollouts",
    "plugins": "list what is installed, from where, and what is broken and why",
    "rollouts": "read samples of a run",
    "reward": "try a reward on completions; with --audit also on fakes of them",
    "replay": "look into a step whose update was not finite",
    "new": "write a package of your own: rlcore new plugin NAME --kind KIND",
    "model": "fetch a model that rlcore knows how to make",
    "data": "look at a data set, convert its file, split it",
    "bench": "measure speed and learning on sums; one JSON line",
}
"""Every command, with its line of help; the module of that name has `add_arguments(parser)` and `run(args) -> int`."""

EPILOG = """values: key=value overrides what a file says, e.g. algorithm=dapo algorithm.group_size=4
advantage=[gae,whiten] filter=null reward=path/to/file.py:function sampling.temperature=0.8.
RLCORE_TRACEBACK=1 shows where an error arose."""


class Parser(argparse.ArgumentParser):
    """argparse's parser, which also says which command or option was probably meant."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Print usage and the nearest name, and exit with 2."""
        word = message.partition("invalid choice: '")[2].partition("'")[0]
        self.exit(2, f"{self.format_usage()}{self.prog}: {message}{nearest(word, COMMANDS) if word else ''}\n")


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
    for name, line in COMMANDS.items():
        one = commands.add_parser(
            name, help=line, description=line[:1].upper() + line[1:] + ".", epilog=EPILOG, allow_abbrev=False
        )
        if name == only:
            importlib.import_module(f"rlcore.cli.{name}").add_arguments(one)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, 1 for what the user can put right, 2 for a wrong command line."""
    words = list(sys.argv[1:] if argv is None else argv)
    command = next((w for w in words if not w.startswith("-")), None)
    top = parser(command)
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
        return int(importlib.import_module(f"rlcore.cli.{args.command}").run(args))
    except RLCoreError as error:
        if os.environ.get("RLCORE_TRACEBACK", "") not in ("", "0"):
            raise
        print(f"rlcore {args.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"rlcore {args.command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read the output has seen enough; nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
