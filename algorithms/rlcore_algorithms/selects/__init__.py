"""Selects, one a file: which tokens an optimizer update trains on, decided once over all of its rows."""

import sys

from rlcore.shapes import check_module
from rlcore_algorithms.selects.clip_cov import clip_cov as clip_cov
from rlcore_algorithms.selects.current import current_rejection as current_rejection
from rlcore_algorithms.selects.current import current_weights as current_weights
from rlcore_algorithms.selects.kl_cov import kl_cov as kl_cov
from rlcore_algorithms.selects.m2po import m2po as m2po
from rlcore_algorithms.selects.opsm import opsm as opsm
from rlcore_algorithms.selects.top_entropy import top_entropy as top_entropy

check_module(sys.modules[__name__])
