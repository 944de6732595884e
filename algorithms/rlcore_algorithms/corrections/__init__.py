"""Corrections, one a file: weights or masks for the mismatch between the sampler and the trainer.

They compose as a list: each multiplies the weights, or narrows the mask, of those before it; `normalized` divides the
weights so far. A token of weight 0 stays in every denominator, one off the mask does not. None changes a reward.
"""

import sys

from rlcore.component import bind
from rlcore.shapes import check_module
from rlcore_algorithms.corrections.bypass import bypass as bypass
from rlcore_algorithms.corrections.icepop import icepop as icepop
from rlcore_algorithms.corrections.measured import measured as measured
from rlcore_algorithms.corrections.normalized import normalized as normalized
from rlcore_algorithms.corrections.rejected import rejected as rejected
from rlcore_algorithms.corrections.truncated import truncated as truncated

check_module(sys.modules[__name__])

geometric_mask = bind(rejected, level="sequence_mean", measure="k1", low=0.999, high=1.001)
k3_mask = bind(rejected, level="sequence_mean", measure="k3", low=None, high=0.01)
sequence_icepop = bind(icepop, level="sequence")
sequence_mask = bind(rejected, level="sequence_sum", measure="k1", low=0.5, high=2.0)
sequence_truncated = bind(truncated, level="sequence", high=2.0)
token_mask = bind(rejected, level="token", measure="k1", low=0.5, high=2.0)
