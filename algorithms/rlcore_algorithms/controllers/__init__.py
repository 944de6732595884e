"""Controllers, one a file: they change a number that the next step reads, such as the coefficient of the KL."""

import sys

from rlcore.shapes import check_module
from rlcore_algorithms.controllers.adaptive_kl import adaptive_kl as adaptive_kl

check_module(sys.modules[__name__])
