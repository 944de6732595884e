"""Advantage estimators, one a file, named by what they compute.

Each is handed one row per session with only the scored rows and only the sampled tokens, left-aligned: entries beyond
`length` are padding. It returns [B], spread over the row's tokens, or [B, T].
"""

import sys

from rlcore.shapes import check_module
from rlcore_algorithms.advantages.best_margin import best_margin as best_margin
from rlcore_algorithms.advantages.clip import clip as clip
from rlcore_algorithms.advantages.components_norm import components_norm as components_norm
from rlcore_algorithms.advantages.gae import gae as gae
from rlcore_algorithms.advantages.greedy_baseline import greedy_baseline as greedy_baseline
from rlcore_algorithms.advantages.group_norm import group_norm as group_norm
from rlcore_algorithms.advantages.leave_one_out import leave_one_out as leave_one_out
from rlcore_algorithms.advantages.length_weighted_baseline import length_weighted_baseline as length_weighted_baseline
from rlcore_algorithms.advantages.mean_ratio import mean_ratio as mean_ratio
from rlcore_algorithms.advantages.norm import norm as norm
from rlcore_algorithms.advantages.per_active_row import per_active_row as per_active_row
from rlcore_algorithms.advantages.process_leave_one_out import process_leave_one_out as process_leave_one_out
from rlcore_algorithms.advantages.reward_to_go import reward_to_go as reward_to_go
from rlcore_algorithms.advantages.scale import scale as scale
from rlcore_algorithms.advantages.token_baseline import token_baseline as token_baseline
from rlcore_algorithms.advantages.weighted_sum import weighted_sum as weighted_sum
from rlcore_algorithms.advantages.whiten import whiten as whiten

check_module(sys.modules[__name__])
