"""Data sets: each a function from options to rows."""

from rlcore_envs.datasets.countdown import countdown
from rlcore_envs.datasets.file import file
from rlcore_envs.datasets.gsm8k import gsm8k
from rlcore_envs.datasets.gym import reasoning_gym
from rlcore_envs.datasets.mixture import mixture
from rlcore_envs.datasets.prompt_format import format_prompts
from rlcore_envs.datasets.row_filters import filter_rows
from rlcore_envs.datasets.svamp import svamp
from rlcore_envs.datasets.tasks import arithmetic, letter_counting, sorting

__all__ = [
    "arithmetic",
    "countdown",
    "file",
    "filter_rows",
    "format_prompts",
    "gsm8k",
    "letter_counting",
    "mixture",
    "reasoning_gym",
    "sorting",
    "svamp",
]
