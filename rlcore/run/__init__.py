"""A run: one training with its folder."""

from rlcore.run.run import Run as Run
