"""The algorithm shelf: advantage estimators, losses, reductions, filters, and named algorithms made of them.

One small file each. They come in by the same hook as anyone's package; nothing in the core knows their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.hooks import hookimpl
from rlcore_algorithms import (
    advantages,
    controllers,
    corrections,
    filters,
    kls,
    losses,
    presets,
    reductions,
    selects,
    shaping,
)
from rlcore_algorithms.cispo import cispo as cispo
from rlcore_algorithms.clip_cov import clip_cov as clip_cov
from rlcore_algorithms.dapo import dapo as dapo
from rlcore_algorithms.dppo import dppo as dppo
from rlcore_algorithms.dr_grpo import dr_grpo as dr_grpo
from rlcore_algorithms.gdpo import gdpo as gdpo
from rlcore_algorithms.gmpo import gmpo as gmpo
from rlcore_algorithms.gpg import gpg as gpg
from rlcore_algorithms.grpo import grpo as grpo
from rlcore_algorithms.gspo import gspo as gspo
from rlcore_algorithms.kl_cov import kl_cov as kl_cov
from rlcore_algorithms.lite_ppo import lite_ppo as lite_ppo
from rlcore_algorithms.luspo import luspo as luspo
from rlcore_algorithms.maxrl import maxrl as maxrl
from rlcore_algorithms.opo import opo as opo
from rlcore_algorithms.otb import otb as otb
from rlcore_algorithms.ppo import ppo as ppo
from rlcore_algorithms.prime import prime as prime
from rlcore_algorithms.reinforce_pp import reinforce_pp as reinforce_pp
from rlcore_algorithms.reinforce_pp_baseline import reinforce_pp_baseline as reinforce_pp_baseline
from rlcore_algorithms.remax import remax as remax
from rlcore_algorithms.rloo import rloo as rloo
from rlcore_algorithms.sapo import sapo as sapo
from rlcore_algorithms.vespo import vespo as vespo

if TYPE_CHECKING:
    from rlcore.registry import Add

EXPECT_FAIL = {"algorithm": presets.EXPECT_FAIL}
"""Checks of rlcore.testing that parts of the shelf are declared to fail: the laws that a peer's preset breaks."""


@hookimpl
def register(add: Add) -> None:
    """Offer the shelf."""
    for estimator in advantages.ALL:
        add.advantage(estimator.__name__, estimator)
    for name, loss in losses.ALL.items():
        add.loss(name, loss)
    for reduction in reductions.ALL:
        add.reduction(reduction.__name__, reduction)
    for name, estimate in kls.ALL.items():
        add.kl(name, estimate)
    for select in selects.ALL:
        add.select(select.__name__, select)
    for name, correction in corrections.ALL.items():
        add.correction(name, correction)
    for choice in filters.ALL:
        add.filter(choice.__name__, choice)
    for penalty in shaping.ALL:
        add.shaping(penalty.__name__, penalty)
    add.controller("adaptive_kl", controllers.adaptive_kl)
    for algorithm in (
        cispo,
        clip_cov,
        dapo,
        dppo,
        dr_grpo,
        gdpo,
        gmpo,
        gpg,
        grpo,
        gspo,
        kl_cov,
        lite_ppo,
        luspo,
        maxrl,
        opo,
        otb,
        ppo,
        prime,
        reinforce_pp,
        reinforce_pp_baseline,
        remax,
        rloo,
        sapo,
        vespo,
    ):
        add.algorithm(algorithm.__name__, algorithm)
    for name, factory in presets.ALL.items():
        add.algorithm(name, factory)
