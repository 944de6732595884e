"""rlcore: reinforcement-learning post-training of language models, made of plain functions.

Importing it loads nothing else; each public name brings in what it needs when it is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcore.algorithm import Algorithm
    from rlcore.batch import Batch
    from rlcore.columns import COLUMNS, Column
    from rlcore.component import bind
    from rlcore.errors import (
        CheckpointError,
        ComponentError,
        ConfigError,
        DataError,
        GraphError,
        ModelError,
        RegistryError,
        RewardError,
        RLCoreError,
        RunError,
        UnknownNameError,
    )
    from rlcore.graph import Graph, Node
    from rlcore.hooks import hookimpl
    from rlcore.protocols import (
        Environment,
        LossOutput,
        RewardManager,
        Sampler,
        Term,
        Tracker,
        Trainer,
        Update,
        WeightTransfer,
    )
    from rlcore.registry import get, names
    from rlcore.run import Run

__version__ = "0.1.0"

__all__ = [
    "COLUMNS",
    "Algorithm",
    "Batch",
    "CheckpointError",
    "Column",
    "ComponentError",
    "ConfigError",
    "DataError",
    "Environment",
    "Graph",
    "GraphError",
    "LossOutput",
    "ModelError",
    "Node",
    "RLCoreError",
    "RegistryError",
    "RewardError",
    "RewardManager",
    "Run",
    "RunError",
    "Sampler",
    "Term",
    "Tracker",
    "Trainer",
    "UnknownNameError",
    "Update",
    "WeightTransfer",
    "bind",
    "get",
    "hookimpl",
    "names",
]


_HOMES = {
    "algorithm": ("Algorithm",),
    "batch": ("Batch",),
    "columns": ("COLUMNS", "Column"),
    "component": ("bind",),
    "errors": (
        "CheckpointError", "ComponentError", "ConfigError", "DataError", "GraphError", "ModelError", "RLCoreError",
        "RegistryError", "RewardError", "RunError", "UnknownNameError",
    ),
    "graph": ("Graph", "Node"),
    "hooks": ("hookimpl",),
    "protocols": (
        "Environment", "LossOutput", "RewardManager", "Sampler", "Term", "Tracker", "Trainer", "Update",
        "WeightTransfer",
    ),
    "registry": ("get", "names"),
    "run": ("Run",),
}  # fmt: skip
"""Where each public name is defined: it is imported when it is asked for, so that a line of help costs no torch."""


def __getattr__(name: str) -> Any:
    for module, public in _HOMES.items():
        if name in public:
            thing = getattr(importlib.import_module(f"rlcore.{module}"), name)
            globals()[name] = thing
            return thing
    raise AttributeError(f"module 'rlcore' has no attribute {name!r}")
