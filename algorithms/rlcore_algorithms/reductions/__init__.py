"""Reductions, one a file: from the mask and the counts of the whole optimizer update to weights of tokens or rows."""

import sys

from rlcore.shapes import check_module
from rlcore_algorithms.reductions.constant import constant as constant
from rlcore_algorithms.reductions.prompt_mean import prompt_mean as prompt_mean
from rlcore_algorithms.reductions.sequence_mean_token_mean import sequence_mean_token_mean as sequence_mean_token_mean
from rlcore_algorithms.reductions.sequence_mean_token_sum import sequence_mean_token_sum as sequence_mean_token_sum
from rlcore_algorithms.reductions.token_mean import token_mean as token_mean
from rlcore_algorithms.reductions.token_sum import token_sum as token_sum

check_module(sys.modules[__name__])
