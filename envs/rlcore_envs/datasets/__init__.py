"""Data sets: each a function from options to rows."""

from rlcore_envs.datasets.countdown import countdown
from rlcore_envs.datasets.file import file
from rlcore_envs.datasets.gsm8k import gsm8k
from rlcore_envs.datasets.hub import hub
from rlcore_envs.datasets.svamp import svamp

__all__ = ["countdown", "file", "gsm8k", "hub", "svamp"]
