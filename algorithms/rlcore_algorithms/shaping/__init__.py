"""Shaping nodes, one a file: what is done to a graded row before anything is estimated from it.

Each is handed whole rows, 0 off the sampled tokens, and rewrites `reward` with `token_reward`, or `mask`.
"""

import sys

from rlcore.shapes import check_module
from rlcore_algorithms.shaping.duplicate_mask import duplicate_mask as duplicate_mask
from rlcore_algorithms.shaping.implicit_process_reward import implicit_process_reward as implicit_process_reward
from rlcore_algorithms.shaping.overlong_mask import overlong_mask as overlong_mask
from rlcore_algorithms.shaping.soft_overlong import soft_overlong as soft_overlong
from rlcore_algorithms.shaping.weighted_components import weighted_components as weighted_components

check_module(sys.modules[__name__])
