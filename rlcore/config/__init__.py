"""Configuration: `load` turns a YAML file and `key=value` overrides into a checked `Experiment`.

Hydra composes; groups come from the registry and options from signatures, so a plugin ships no file for its
components. Nothing is loaded.
"""

from rlcore.config.load import load
from rlcore.config.yaml_files import to_yaml
from rlcore.experiment import Experiment

__all__ = ["Experiment", "load", "to_yaml"]
