"""Configuration: `load` turns a YAML file and `key=value` overrides into a checked `Experiment`.

Groups come from the registry and options from signatures, so a plugin ships no file for its parts. Nothing is loaded.
"""

from rlcore.config.load import load
from rlcore.config.notation import to_yaml
from rlcore.experiment import Experiment

__all__ = ["Experiment", "load", "to_yaml"]
