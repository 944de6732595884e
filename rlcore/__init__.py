"""rlcore: reinforcement-learning post-training of language models, made of plain functions.

Importing it loads nothing else; each public name brings in what it needs when it is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcore.algorithm import Algorithm as Algorithm
    from rlcore.batch import Batch as Batch
    from rlcore.columns import COLUMNS as COLUMNS
    from rlcore.columns import Column as Column
    from rlcore.component import bind as bind
    from rlcore.errors import CheckpointError as CheckpointError
    from rlcore.errors import ComponentError as ComponentError
    from rlcore.errors import ConfigError as ConfigError
    from rlcore.errors import DataError as DataError
    from rlcore.errors import GraphError as GraphError
    from rlcore.errors import ModelError as ModelError
    from rlcore.errors import RegistryError as RegistryError
    from rlcore.errors import RewardError as RewardError
    from rlcore.errors import RLCoreError as RLCoreError
    from rlcore.errors import RunError as RunError
    from rlcore.errors import UnknownNameError as UnknownNameError
    from rlcore.graph import Graph as Graph
    from rlcore.graph import Node as Node
    from rlcore.hooks import hookimpl as hookimpl
    from rlcore.offline import OfflineAlgorithm as OfflineAlgorithm
    from rlcore.protocols import Environment as Environment
    from rlcore.protocols import LossOutput as LossOutput
    from rlcore.protocols import RewardManager as RewardManager
    from rlcore.protocols import Sampler as Sampler
    from rlcore.protocols import Term as Term
    from rlcore.protocols import Tracker as Tracker
    from rlcore.protocols import Trainer as Trainer
    from rlcore.protocols import Update as Update
    from rlcore.protocols import WeightTransfer as WeightTransfer
    from rlcore.registry import get as get
    from rlcore.registry import names as names
    from rlcore.run import Run as Run

__version__ = "0.1.0"

_HOMES = {
    "algorithm": "Algorithm",
    "batch": "Batch",
    "columns": "COLUMNS Column",
    "component": "bind",
    "errors": "CheckpointError ComponentError ConfigError DataError GraphError ModelError RLCoreError RegistryError "
    "RewardError RunError UnknownNameError",
    "graph": "Graph Node",
    "hooks": "hookimpl",
    "offline": "OfflineAlgorithm",
    "protocols": "Environment LossOutput RewardManager Sampler Term Tracker Trainer Update WeightTransfer",
    "registry": "get names",
    "run": "Run",
}
"""The public names by the module that defines them. Each is imported when it is first used: help imports no torch."""

__all__ = [name for names in _HOMES.values() for name in names.split()]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names.split():
            thing = getattr(importlib.import_module(f"rlcore.{module}"), name)
            globals()[name] = thing
            return thing
    raise AttributeError(f"module 'rlcore' has no attribute {name!r}")
