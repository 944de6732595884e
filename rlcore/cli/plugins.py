"""`rlcore plugins`: what is installed, from where, what is broken and why."""

from __future__ import annotations

import argparse
import sys

from rlcore.errors import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--names", action="store_true", help="list every name that each plugin offers")
    parser.add_argument("--traceback", action="store_true", help="show where a broken plugin failed")


def run(args: argparse.Namespace) -> int:
    """Print a line a plugin."""
    from rlcore.registry import registry

    known = registry()
    for plugin in known.plugins:
        entries = [e for e in known.entries() if (e.plugin, e.distribution) == (plugin.name, plugin.distribution)]
        state = f"OUT: {plugin.reason}" if plugin.reason else counted(len(entries), "component")
        print(f"{plugin.name:<14} {plugin.distribution} {plugin.version}  {plugin.module}  {state}")
        if args.names:
            for kind in dict.fromkeys(e.kind for e in entries):
                print(f"    {kind}: {', '.join(sorted(e.name for e in entries if e.kind == kind))}")
        if args.traceback and plugin.traceback:
            print(plugin.traceback, file=sys.stderr)
    for (kind, name), owners in known.clashes().items():
        print(f"{kind} {name!r} has {len(owners)} owners; name one as {' or '.join(owners)}")
    return 0
