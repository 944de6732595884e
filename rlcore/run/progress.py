"""Progress of long work: a live line on a terminal, plain lines elsewhere. Everything goes to standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """Shows one phase at a time: how much is done, a note, and the time that is left."""

    every_seconds = 5.0

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.live = sys.stderr.isatty() and not quiet

    def say(self, text: str) -> None:
        """Print a line."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Print a line on what went wrong, also where nothing else is shown: quiet is for progress alone."""
        print(f"warning: {text}", file=sys.stderr, flush=True)

    @contextmanager
    def phase(self, name: str, total: int) -> Iterator[Phase]:
        """Show a phase of `total` pieces while the block runs."""
        if not self.live:
            phase = Phase(self, name, total)
            yield phase
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
            task = bars.add_task(name, total=total, note="")
            phase = Phase(self, name, total)
            phase.show = lambda done, note: bars.update(task, completed=done, note=note)
            yield phase


class Phase:
    """A phase that is going on: a name, how many of its pieces are done, and since when."""

    def __init__(self, progress: Progress, name: str, total: int) -> None:
        self.progress, self.name, self.total = progress, name, total
        self.done = 0
        self.begin = self.last = time.monotonic()
        self.show = self._line

    def advance(self, pieces: int = 1, note: str = "") -> None:
        """Count some pieces as done and show it."""
        self.done += pieces
        self.show(self.done, note)

    def _line(self, done: int, note: str) -> None:
        now = time.monotonic()
        if now - self.last < self.progress.every_seconds and done < self.total:
            return
        self.last = now
        left = (now - self.begin) / max(done, 1) * (self.total - done)
        self.progress.say(
            f"{self.name} {done}/{self.total}"
            + (f"  {left:.0f} s left" if done < self.total else "")
            + (f"  {note}" if note else "")
        )
