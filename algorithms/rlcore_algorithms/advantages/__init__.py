"""Advantage estimators, one a file, named by what they compute.

Each is handed one row per session with only the scored rows and only the sampled tokens, left-aligned: entries beyond
`length` are padding. It returns [B], spread over the row's tokens, or [B, T].
"""

from rlcore_algorithms.advantages.gae import gae as gae
from rlcore_algorithms.advantages.group_norm import group_norm as group_norm
from rlcore_algorithms.advantages.leave_one_out import leave_one_out as leave_one_out
from rlcore_algorithms.advantages.reward_to_go import reward_to_go as reward_to_go
from rlcore_algorithms.advantages.whiten import whiten as whiten
