"""Controllers, one a file: they rewrite a number that the next step reads, such as the price of a nat of KL."""

import sys

from rlcore.shapes import check_module
from rlcore_algorithms.controllers.adaptive_kl import adaptive_kl as adaptive_kl

check_module(sys.modules[__name__])
