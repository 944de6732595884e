"""One line per step on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

SHOWN = 8


class Console:
    """A line per step: its number and a few metrics, for a person who watches or a log that is read later.

    `show` names the metrics in order; a name that a step lacks is passed over. Without it the first eight of a step are
    shown. `every` prints only each n-th step. Lines go to standard error: standard output stays the command's own.
    """

    immediate: ClassVar[bool] = True

    def __init__(self, *, show: tuple[str, ...] = (), every: int = 1) -> None:
        self.show = tuple(show)
        self.every = every

    def start(self, *, run: str, project: str, config: Mapping[str, object], folder: Path) -> None:
        """Say which run this is and where it writes."""
        print(f"{project}/{run}: {folder}", file=sys.stderr, flush=True)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Print one line."""
        if step % self.every:
            return
        names = [name for name in self.show if name in metrics] or list(metrics)[:SHOWN]
        shown = "  ".join(f"{name} {metrics[name]:.4g}" for name in names)
        print(f"step {step:>5}  {shown}", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Do nothing: the last line is printed."""
