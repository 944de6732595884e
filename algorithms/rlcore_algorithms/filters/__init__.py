"""Filters, one a file: which of a rollout's rows are trained on, as indices into the rows that they are given."""

import sys

from rlcore.shapes import check_module
from rlcore_algorithms.filters.accuracy_band import accuracy_band as accuracy_band
from rlcore_algorithms.filters.dynamic_sampling import dynamic_sampling as dynamic_sampling
from rlcore_algorithms.filters.score_resampling import score_resampling as score_resampling

check_module(sys.modules[__name__])
