"""Presets: settings of registered components that reproduce a named version of a peer; no tensor operation here."""

from rlcore_algorithms.presets import read, trl, verl

ALL = {**verl.ALL, **trl.ALL, **read.ALL}
"""Factories by the name that they are registered under: `verl-0.9/grpo`."""
