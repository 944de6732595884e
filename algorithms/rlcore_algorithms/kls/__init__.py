"""KL estimators that need more than two log-probabilities; the others are plain maths in `rlcore.math.kl`."""

import sys

from rlcore.shapes import check_module
from rlcore_algorithms.kls.full import full as full
from rlcore_algorithms.kls.k3_unbiased import k3_unbiased as k3_unbiased

check_module(sys.modules[__name__])
