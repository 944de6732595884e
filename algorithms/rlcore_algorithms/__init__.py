"""The packaged algorithms and their components: advantage estimators, losses, reductions, filters and others.

One small file each. They are registered by the same hook as anyone's package; the core knows none of their names.
"""

from __future__ import annotations

import sys

from rlcore.hooks import Add, hookimpl
from rlcore.math import entropy_bonus, kl
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
from rlcore_algorithms.bradley_terry import bradley_terry as bradley_terry
from rlcore_algorithms.cispo import cispo as cispo
from rlcore_algorithms.clip_cov import clip_cov as clip_cov
from rlcore_algorithms.dapo import dapo as dapo
from rlcore_algorithms.distill import FORWARD, TEACHER_KL
from rlcore_algorithms.distill import distill as distill
from rlcore_algorithms.dpo import dpo as dpo
from rlcore_algorithms.dppo import dppo as dppo
from rlcore_algorithms.dr_grpo import dr_grpo as dr_grpo
from rlcore_algorithms.gdpo import gdpo as gdpo
from rlcore_algorithms.gmpo import gmpo as gmpo
from rlcore_algorithms.gpg import gpg as gpg
from rlcore_algorithms.grpo import grpo as grpo
from rlcore_algorithms.gspo import gspo as gspo
from rlcore_algorithms.ipo import ipo as ipo
from rlcore_algorithms.kl_cov import kl_cov as kl_cov
from rlcore_algorithms.kto import COLUMNS as KTO_COLUMNS
from rlcore_algorithms.kto import kto as kto
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
from rlcore_algorithms.sft import sft as sft
from rlcore_algorithms.simpo import simpo as simpo
from rlcore_algorithms.vespo import vespo as vespo

EXPECT_FAIL = {"algorithm": presets.EXPECT_FAIL}
"""Checks of rlcore.testing that are declared to fail: laws that a peer breaks, and so does its preset."""


@hookimpl
def register(add: Add) -> None:
    """Register every component under the name of its function, except where another name is given."""
    for column in (TEACHER_KL, FORWARD, *KTO_COLUMNS):
        add.column(column)
    add.module("advantage", advantages)
    add.module("loss", losses)
    add.loss("entropy_bonus", entropy_bonus)
    add.module("reduction", reductions)
    add.module("kl", kls)
    for name in ("k1", "k1_straight_through", "k2", "k3", "k3_straight_through"):
        add.kl(name, getattr(kl, name))
    add.kl("abs", kl.absolute)
    add.kl("abs_straight_through", kl.absolute_straight_through)
    add.module("select", selects)
    add.module("correction", corrections)
    add.module("filter", filters)
    add.module("shaping", shaping)
    add.module("controller", controllers)
    add.module("algorithm", sys.modules[__name__])
    for name, factory in presets.ALL.items():
        add.algorithm(name, factory)
