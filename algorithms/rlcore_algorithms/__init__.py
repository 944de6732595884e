"""The algorithm shelf: advantage estimators, losses, reductions, filters, and named algorithms made of them.

One small file each. They come in by the same hook as anyone's package; nothing in the core knows their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.hooks import hookimpl
from rlcore.math import entropy_bonus, k1, k2, k3
from rlcore_algorithms import advantages, controllers, filters, losses, reductions
from rlcore_algorithms.dapo import dapo as dapo
from rlcore_algorithms.dr_grpo import dr_grpo as dr_grpo
from rlcore_algorithms.grpo import grpo as grpo
from rlcore_algorithms.ppo import ppo as ppo
from rlcore_algorithms.reinforce_pp import reinforce_pp as reinforce_pp
from rlcore_algorithms.rloo import rloo as rloo

if TYPE_CHECKING:
    from rlcore.registry import Add


@hookimpl
def register(add: Add) -> None:
    """Offer the shelf."""
    for estimator in (
        advantages.gae,
        advantages.group_norm,
        advantages.leave_one_out,
        advantages.reward_to_go,
        advantages.whiten,
    ):
        add.advantage(estimator.__name__, estimator)
    for loss in (losses.clipped, losses.nll, losses.policy_gradient, losses.value_clipped, entropy_bonus):
        add.loss(loss.__name__, loss)
    for reduction in (
        reductions.constant,
        reductions.prompt_mean,
        reductions.sequence_mean_token_mean,
        reductions.sequence_mean_token_sum,
        reductions.token_mean,
    ):
        add.reduction(reduction.__name__, reduction)
    for estimate in (k1, k2, k3):
        add.kl(estimate.__name__, estimate)
    add.filter("dynamic_sampling", filters.dynamic_sampling)
    add.controller("adaptive_kl", controllers.adaptive_kl)
    for algorithm in (dapo, dr_grpo, grpo, ppo, reinforce_pp, rloo):
        add.algorithm(algorithm.__name__, algorithm)
