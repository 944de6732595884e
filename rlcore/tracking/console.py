"""One line per step on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from rlcore.metrics import full_name
from rlcore.protocols import Tracker

SHOWN = {
    "score": "score",
    "eval/success": "held-out",
    "score/group_variance": "var(score)",
    "advantage/group_variance": "var(adv)",
    "groups/without_variance": "flat groups",
    "rows/unscored": "unscored",
    "response/length": "length",
    "response/truncated": "cut",
    "response/reflection": "reflect",
    "loss": "loss",
    "accuracy": "accuracy",
    "entropy": "entropy",
    "policy/kl": "kl",
    "clip_share": "clip",
    "speed/rollout_tokens_per_second": "rollout tok/s",
    "speed/tokens_per_second": "tok/s",
}
"""The metrics of a line by default, each with its short name; without the node's name before it: `update/entropy`."""
WITHOUT_SCORE = ("loss", "accuracy")
"""Metrics that are shown only of a step that was not graded."""
ABOVE_0 = ("rows/unscored",)
"""Metrics that are shown only where they are not 0."""


class Console(Tracker):
    """A line per step: its number and a few metrics, for a person who watches or a log that is read later.

    `show` names the metrics in order, with or without the node before a slash; one that a step lacks is passed over,
    and a step that has none of them shows all that it has. `every` prints only each n-th step. Lines go to standard
    error: standard output is the command's own.
    """

    immediate = True

    def __init__(self, *, show: tuple[str, ...] = tuple(SHOWN), every: int = 1) -> None:
        self.show = tuple(show)
        self.every = every

    def start(self, *, run: str, project: str, config: Mapping[str, object], folder: Path) -> None:
        """Say which run this is and where it writes."""
        print(f"{project}/{run}: {folder}", file=sys.stderr, flush=True)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Print one line."""
        if step % self.every:
            return
        hidden = WITHOUT_SCORE if "score" in metrics and self.show == tuple(SHOWN) else ()
        chosen = {name: full_name(metrics, name) for name in self.show if name not in hidden}
        found = {name: metrics[full] for name, full in chosen.items() if full is not None} or metrics
        text = "  ".join(
            f"{SHOWN.get(name, name)} {value:.4g}" for name, value in found.items() if value or name not in ABOVE_0
        )
        print(f"step {step:>5}  {text}", file=sys.stderr, flush=True)
