"""The estimators, through the border, against plain NumPy versions: ragged rows, holes, unequal groups, no scores."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.batch import Batch
from rlcore.component import bind
from rlcore.execute.adapters import call_on_sessions
from rlcore.graph import Node
from rlcore.math import subtract_kl
from rlcore_algorithms.advantages import gae, group_norm, leave_one_out, reward_to_go, whiten
from tests.parity import plain
from tests.parity.covered import covers

few = settings(max_examples=40, deadline=None, derandomize=True)
# Scores that tie, that no float holds exactly, that are far from 0 beside their spread, and that are far apart.
SCORES = ([0.0, 1.0], [0.1, 0.35, 0.95], [1000.0, 1000.01, 1000.02], [-1e6, 0.0, 1e6])


@st.composite
def rollouts(draw):
    """Raw rows as a run has them, in float64: {column: array}, some rows empty, some unscored."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, width = draw(st.integers(1, 8)), draw(st.integers(1, 7))
    on = random.random((rows, width)) < draw(st.sampled_from([0.3, 0.7, 1.0]))
    score = random.choice(draw(st.sampled_from(SCORES)), rows)
    score[random.random(rows) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    token_reward = np.where(on, random.normal(size=on.shape), 0.0)
    value = np.where(random.random(on.shape) < 0.5, random.normal(size=on.shape), np.nan)
    value = np.where(on, np.nan_to_num(value), value)
    return {
        "on": on,
        "score": score,
        "reward": np.nan_to_num(score),
        "group": random.integers(0, max(rows // 2, 1), rows) * 13,
        "token_reward": token_reward,
        "value": value,
        "advantage": np.where(on, random.normal(size=on.shape), 0.0),
    }


def estimated(estimator, rollout, column="advantage"):
    on = torch.from_numpy(rollout["on"])
    rows, width = on.shape
    columns = {name: torch.from_numpy(x) for name, x in rollout.items() if name != "on"}
    structure = {"length": torch.full((rows,), width), "sampled": on, "mask": on, "session": torch.arange(rows)}
    batch = Batch({**structure, "segment": torch.zeros(rows, dtype=torch.int64), **columns})
    node = Node(estimator, name="advantage", kind="advantage")
    written = call_on_sessions(node, estimator, batch, tuple(read.name for read in node.reads), {})
    return batch.assign({column: written[column]})[column].numpy()


def voting(rollout):
    return ~np.isnan(rollout["score"]) & rollout["on"].any(1)


def agree(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * max(1.0, float(np.abs(expected).max(initial=0.0))))


@covers(group_norm, leave_one_out)
@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        (group_norm, "norm"),
        (bind(group_norm, scale_by_std=False), "center"),
        (leave_one_out, "leave_one_out"),
        (bind(leave_one_out, scale_by_std=True), "leave_one_out_scaled"),
    ],
)
@few
@given(rollout=rollouts())
def test_group_estimators_agree_with_the_plain_versions(estimator, kind, rollout):
    row = plain.group_advantages(rollout["reward"], rollout["group"], voting(rollout), kind=kind)
    agree(estimated(estimator, rollout), np.where(rollout["on"], row[:, None], 0.0))


@covers(gae)
@few
@given(rollout=rollouts(), gamma=st.sampled_from([0.0, 0.9, 1.0]), lam=st.sampled_from([0.0, 0.95, 1.0]))
def test_gae_agrees_with_the_plain_version(rollout, gamma, lam):
    on = rollout["on"] & voting(rollout)[:, None]
    advantage, returns = plain.gae(rollout["token_reward"], rollout["value"], on, gamma=gamma, lam=lam)
    estimator = bind(gae, gamma=gamma, lam=lam)
    agree(estimated(estimator, rollout), advantage)
    agree(estimated(estimator, rollout, "returns"), returns)


@covers(reward_to_go)
@few
@given(rollout=rollouts(), gamma=st.sampled_from([0.0, 0.9, 1.0]))
def test_reward_to_go_agrees_with_the_plain_version(rollout, gamma):
    on = rollout["on"] & voting(rollout)[:, None]
    agree(
        estimated(bind(reward_to_go, gamma=gamma), rollout),
        plain.reward_to_go(rollout["token_reward"], on, gamma=gamma),
    )


@covers(whiten)
@few
@given(rollout=rollouts(), equal=st.booleans())
def test_whitening_agrees_with_the_plain_version(rollout, equal):
    on = rollout["on"] & voting(rollout)[:, None]
    if equal:
        rollout = {**rollout, "advantage": np.where(rollout["on"], 0.35, 0.0)}
    agree(estimated(whiten, rollout), plain.whiten(rollout["advantage"], on))


@few
@given(rollout=rollouts(), coefficient=st.sampled_from([0.0, 0.05, 2.0]))
def test_kl_in_the_reward_agrees_with_the_plain_version(rollout, coefficient):
    on, kl = rollout["on"], rollout["value"]
    cost = np.where(on, coefficient * np.nan_to_num(kl), 0.0)
    columns = (torch.from_numpy(x) for x in (rollout["token_reward"].sum(1), rollout["token_reward"], on, kl))
    found = subtract_kl(*columns, coefficient)
    agree(found.token_reward.numpy(), rollout["token_reward"] - cost)
    agree(found.reward.numpy(), rollout["token_reward"].sum(1) - cost.sum(1))
