"""Losses, one a file: a value per token or row, whatever the split of the batch; a reduction weights and sums them."""

import sys

from rlcore.shapes import check_module
from rlcore_algorithms.losses.bradley_terry import bradley_terry as bradley_terry
from rlcore_algorithms.losses.cispo import cispo as cispo
from rlcore_algorithms.losses.clipped import clipped as clipped
from rlcore_algorithms.losses.decoupled import decoupled as decoupled
from rlcore_algorithms.losses.dpo import dpo as dpo
from rlcore_algorithms.losses.dppo import dppo_kl as dppo_kl
from rlcore_algorithms.losses.dppo import dppo_tv as dppo_tv
from rlcore_algorithms.losses.dro import dro as dro
from rlcore_algorithms.losses.gmpo import gmpo as gmpo
from rlcore_algorithms.losses.gspo import gspo as gspo
from rlcore_algorithms.losses.ipo import ipo as ipo
from rlcore_algorithms.losses.kl_cov import kl_cov as kl_cov
from rlcore_algorithms.losses.kto import kto as kto
from rlcore_algorithms.losses.nll import nll as nll
from rlcore_algorithms.losses.outcome_cross_entropy import outcome_cross_entropy as outcome_cross_entropy
from rlcore_algorithms.losses.policy_gradient import policy_gradient as policy_gradient
from rlcore_algorithms.losses.positive_nll import positive_nll as positive_nll
from rlcore_algorithms.losses.sapo import sapo as sapo
from rlcore_algorithms.losses.simpo import simpo as simpo
from rlcore_algorithms.losses.teacher_kl import forward_kl as forward_kl
from rlcore_algorithms.losses.teacher_kl import reverse_kl as reverse_kl
from rlcore_algorithms.losses.value_clipped import value_clipped as value_clipped
from rlcore_algorithms.losses.vespo import vespo as vespo

check_module(sys.modules[__name__])

# GPG's loss (Chu et al. 2025, arXiv:2504.02546) is the plain policy gradient.
gpg = policy_gradient
# With advantages that differ within a row gspo is its token form.
gspo_token = gspo
