"""Filters, one a file: which of the drawn rows are trained on, as indices into the rows they were given."""

import sys

from rlcore.shapes import check_module
from rlcore_algorithms.filters.accuracy_band import accuracy_band as accuracy_band
from rlcore_algorithms.filters.dynamic_sampling import dynamic_sampling as dynamic_sampling
from rlcore_algorithms.filters.score_resampling import score_resampling as score_resampling

check_module(sys.modules[__name__])
