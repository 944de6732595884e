"""Losses, one a file: values per token, blind to how the batch is split. A reduction makes a number of them."""

from rlcore_algorithms.losses.clipped import clipped as clipped
from rlcore_algorithms.losses.nll import nll as nll
from rlcore_algorithms.losses.policy_gradient import policy_gradient as policy_gradient
from rlcore_algorithms.losses.value_clipped import value_clipped as value_clipped
