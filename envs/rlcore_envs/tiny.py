"""The model of the default run: its weights lie in this package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def tiny_countdown(*, report: Callable[[str], None] = print) -> Path:
    """Return the folder of a Qwen3 of 1.8 million parameters that has learnt Countdown from careless demonstrations.

    It was made by docs/runs/tiny_countdown/make_weights.py. `report` is not called: there is nothing to fetch.
    """
    return Path(__file__).parent / "tiny_countdown"
