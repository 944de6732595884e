"""Shaping, one a file: changes of the reward or the mask of scored rows, before the advantage is estimated.

Each is given whole rows, 0 off the sampled tokens, and returns `reward` with `token_reward`, or `mask`.
"""

import sys

from rlcore.shapes import check_module
from rlcore_algorithms.shaping.duplicate_mask import duplicate_mask as duplicate_mask
from rlcore_algorithms.shaping.implicit_process_reward import implicit_process_reward as implicit_process_reward
from rlcore_algorithms.shaping.overlong_mask import overlong_mask as overlong_mask
from rlcore_algorithms.shaping.soft_overlong import soft_overlong as soft_overlong
from rlcore_algorithms.shaping.weighted_components import weighted_components as weighted_components

check_module(sys.modules[__name__])
