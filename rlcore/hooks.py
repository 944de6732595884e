"""The hooks of rlcore: the one file that the author of a plugin reads.

A plugin is a module or an object named by an entry point of the group `rlcore`:

    [project.entry-points.rlcore]
    acme = "acme_rl"

It offers parts in `register`, and may watch a run through the other hooks. Watching hooks return nothing, and a
failure in one is logged with the plugin's name and stops nothing. Nothing alters data from a hook: to alter data,
insert a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from rlcore.registry import Add

ENTRY_POINTS = "rlcore"
hookspec = pluggy.HookspecMarker(ENTRY_POINTS)
hookimpl = pluggy.HookimplMarker(ENTRY_POINTS)


@hookspec
def register(add: Add) -> None:
    """Offer parts: `add.advantage("name", thing)`, and likewise every kind in `rlcore.registry.KINDS`.

    A thing may be `"module:attribute"`, so that its name is known without importing what it needs.
    """


@hookspec
def run_started(run: Any, folder: Path | None) -> None:
    """Called when everything is loaded, before the first step."""


@hookspec
def node_finished(step: int, node: str, seconds: float, rows: int) -> None:
    """Called after each node: wall seconds, and the rows that it left."""


@hookspec
def step_finished(step: int, metrics: Mapping[str, float]) -> None:
    """Called after each step with its metrics."""


@hookspec
def checkpoint_saved(step: int, folder: Path) -> None:
    """Called when a checkpoint is whole."""


@hookspec
def run_finished(run: Any) -> None:
    """Called after the last step."""


@hookspec
def run_failed(run: Any, error: BaseException) -> None:
    """Called when a run ends by an error; the error is raised again afterwards."""
