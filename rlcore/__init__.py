"""rlcore: reinforcement-learning post-training of language models, made of plain functions.

Importing it loads no engine, no Ray, no Hydra and no transformers; `Run` brings them in when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    if name == "Run":
        from rlcore.run import Run

        return Run
    raise AttributeError(f"module 'rlcore' has no attribute {name!r}")
