"""Data sets: each a function from options to rows."""

from rlcore_envs.datasets.countdown import countdown
from rlcore_envs.datasets.file import file
from rlcore_envs.datasets.gsm8k import gsm8k
from rlcore_envs.datasets.gym import reasoning_gym
from rlcore_envs.datasets.hub import hub
from rlcore_envs.datasets.mixture import mixture
from rlcore_envs.datasets.svamp import svamp
from rlcore_envs.datasets.tasks import arithmetic, letter_counting, sorting

__all__ = [
    "arithmetic",
    "countdown",
    "file",
    "gsm8k",
    "hub",
    "letter_counting",
    "mixture",
    "reasoning_gym",
    "sorting",
    "svamp",
]
