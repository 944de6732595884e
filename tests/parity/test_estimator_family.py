"""More estimators, through the border, against plain NumPy versions: ragged rows, holes, unequal groups, no scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcore.component import bind
from rlcore_algorithms.advantages import (
    best_margin,
    clip,
    components_norm,
    greedy_baseline,
    group_norm,
    length_weighted_baseline,
    mean_ratio,
    norm,
    per_active_row,
    process_leave_one_out,
    reward_to_go,
    scale,
    token_baseline,
    weighted_sum,
    whiten,
)
from tests.parity import plain, plain_estimators
from tests.parity.covered import covers
from tests.parity.test_estimators import agree, estimated, few, rollouts, voting


@st.composite
def wider(draw):
    """Rollouts with what more estimators read: parts of the score, greedy rewards, probabilities, weights."""
    rollout = draw(rollouts())
    on = rollout["on"]
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    logprob = -random.exponential(size=on.shape)
    own = np.exp(logprob)
    return {
        **rollout,
        "score_components": random.choice([0.0, 1.0, 0.35, 1000.01], (len(on), 2)),
        "greedy_reward": random.normal(size=len(on)),
        "process_reward": np.where(on, random.normal(size=on.shape), np.nan),
        "old_logprob": np.where(on, logprob, np.nan),
        "old_square_sum": np.where(on, own**2 + random.random(on.shape) * (1 - own) ** 2, np.nan),
        "weight": np.where(on, random.random(on.shape) * 2, np.nan),
    }


def spread(rollout, row):
    return np.where(rollout["on"], row[:, None], 0.0)


def on_of_votes(rollout):
    return rollout["on"] & voting(rollout)[:, None]


@covers(norm)
@few
@given(
    rollout=rollouts(),
    center=st.sampled_from(["group", "batch", "none"]),
    scale_over=st.sampled_from(["group", "batch", "none"]),
    leave_one_out=st.booleans(),
    bessel=st.booleans(),
    keep_single=st.booleans(),
)
def test_every_setting_of_norm_agrees_with_the_plain_version(
    rollout, center, scale_over, leave_one_out, bessel, keep_single
):
    settings = dict(
        center=center,
        scale=scale_over,
        leave_one_out=leave_one_out,
        bessel=bessel,
        epsilon=1e-4,
        keep_single=keep_single,
    )
    row = plain_estimators.norm(rollout["reward"], rollout["group"], voting(rollout), **settings)
    agree(estimated(bind(norm, **settings), rollout), spread(rollout, row))


@covers(best_margin)
@few
@given(rollout=rollouts(), scale_by_std=st.booleans())
def test_best_margin_agrees_with_the_plain_version(rollout, scale_by_std):
    row = plain_estimators.best_margin(rollout["reward"], rollout["group"], voting(rollout), scale_by_std=scale_by_std)
    agree(estimated(bind(best_margin, scale_by_std=scale_by_std), rollout), spread(rollout, row))


@covers(length_weighted_baseline)
@few
@given(rollout=rollouts(), keep_single=st.booleans())
def test_length_weighted_baseline_agrees_with_the_plain_version(rollout, keep_single):
    row = plain_estimators.length_weighted(
        rollout["reward"], rollout["group"], voting(rollout), rollout["on"].sum(1), keep_single=keep_single
    )
    agree(estimated(bind(length_weighted_baseline, keep_single=keep_single), rollout), spread(rollout, row))


@covers(mean_ratio)
@few
@given(rollout=rollouts())
def test_mean_ratio_agrees_with_the_plain_version(rollout):
    row = plain_estimators.mean_ratio(rollout["reward"], rollout["group"], voting(rollout))
    agree(estimated(mean_ratio, rollout), spread(rollout, row))


@covers(components_norm)
@few
@given(rollout=wider(), weights=st.sampled_from([(), (1.0, 1.0), (0.3, -2.0)]), scale_by_std=st.booleans())
def test_parts_norm_agrees_with_the_plain_version(rollout, weights, scale_by_std):
    kind = "norm" if scale_by_std else "center"
    row = sum(
        weight * plain.group_advantages(rollout["score_components"][:, k], rollout["group"], voting(rollout), kind=kind)
        for k, weight in enumerate(weights or (1.0, 1.0))
    )
    estimator = bind(components_norm, weights=weights, scale_by_std=scale_by_std)
    agree(estimated(estimator, rollout), spread(rollout, row))


@covers(process_leave_one_out)
@few
@given(rollout=wider(), gamma=st.sampled_from([0.0, 0.9, 1.0]), process_weight=st.sampled_from([1.0, 0.3]))
def test_process_leave_one_out_agrees_with_the_plain_version(rollout, gamma, process_weight):
    options = {"gamma": gamma, "process_weight": process_weight}
    expected = plain_estimators.process_leave_one_out(
        *(rollout[name] for name in ("reward", "process_reward", "group")),
        voting(rollout),
        on_of_votes(rollout),
        **options,
    )
    agree(estimated(bind(process_leave_one_out, **options), rollout), expected)


@covers(greedy_baseline)
@few
@given(rollout=wider())
def test_greedy_baseline_agrees_with_the_plain_version(rollout):
    expected = plain_estimators.greedy_baseline(rollout["token_reward"], rollout["greedy_reward"], on_of_votes(rollout))
    agree(estimated(greedy_baseline, rollout), expected)


@covers(token_baseline)
@few
@given(rollout=wider(), terminal=st.booleans(), weighted=st.booleans(), zero_tail=st.booleans())
def test_token_baseline_agrees_with_the_plain_version(rollout, terminal, weighted, zero_tail):
    on = on_of_votes(rollout)
    if terminal:
        last = on & (np.cumsum(on[:, ::-1], 1)[:, ::-1] == 1)
        rollout = {**rollout, "token_reward": np.where(last, rollout["reward"][:, None], 0.0)}
    if not weighted:
        rollout = {name: x for name, x in rollout.items() if name != "weight"}
    expected = plain_estimators.token_baseline(
        rollout["token_reward"],
        rollout["old_logprob"],
        rollout["old_square_sum"],
        rollout["group"],
        voting(rollout),
        on,
        rollout.get("weight"),
        zero_tail=zero_tail,
    )
    found = estimated(bind(token_baseline, zero_tail=zero_tail), rollout)
    # Returns of 1e6 that nearly cancel leave the rounding of 1e6.
    size = max(1.0, float(np.abs(rollout["token_reward"]).sum()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * size)


@covers(per_active_row)
@few
@given(rollout=rollouts(), active=st.sampled_from(["advantage", "reward"]), share=st.sampled_from([0.0, 0.5, 1.0]))
def test_advantages_per_active_row_agree_with_the_plain_version(rollout, active, share):
    idle = np.random.default_rng(len(rollout["on"])).random(len(rollout["on"])) < share
    rollout = {**rollout, "advantage": np.where(idle[:, None], 0.0, rollout["advantage"])}
    on = on_of_votes(rollout)
    expected = plain_estimators.per_active_row(
        rollout["advantage"], rollout["reward"], voting(rollout), on, active=active
    )
    agree(estimated(bind(per_active_row, active=active), rollout), expected)


@few
@given(rollout=rollouts(), shift_mean=st.booleans(), equal=st.booleans())
def test_whitening_by_rows_agrees_with_the_plain_version(rollout, shift_mean, equal):
    if equal:
        rollout = {**rollout, "advantage": np.where(rollout["on"], 0.35, 0.0)}
    expected = plain_estimators.whiten_rows(
        rollout["advantage"], on_of_votes(rollout), voting(rollout), shift_mean=shift_mean
    )
    agree(estimated(bind(whiten, vote="row", shift_mean=shift_mean), rollout), expected)


@covers(clip, scale)
@few
@given(rollout=rollouts(), low=st.sampled_from([None, -0.5, 0.0]), high=st.sampled_from([None, 0.0, 0.5]))
def test_clip_and_scale_agree_with_the_plain_versions(rollout, low, high):
    given_, on = rollout["advantage"], on_of_votes(rollout)
    bounds = (-np.inf if low is None else low, np.inf if high is None else high)
    agree(estimated(bind(clip, low=low, high=high), rollout), np.where(on, np.clip(given_, *bounds), 0.0))
    agree(estimated(bind(scale, factor=-2.5), rollout), np.where(on, -2.5 * given_, 0.0))


@covers(weighted_sum)
@few
@given(rollout=rollouts(), weights=st.sampled_from([(1.0, 1.0), (0.5, -2.0)]))
def test_a_weighted_sum_agrees_with_the_sum_of_the_plain_versions(rollout, weights):
    on = on_of_votes(rollout)
    row = plain.group_advantages(rollout["reward"], rollout["group"], voting(rollout), kind="norm")
    token = plain.reward_to_go(rollout["token_reward"], on, gamma=0.9)
    both = bind(
        weighted_sum,
        first=group_norm,
        second=bind(reward_to_go, gamma=0.9),
        first_weight=weights[0],
        second_weight=weights[1],
    )
    agree(estimated(both, rollout), np.where(on, weights[0] * row[:, None] + weights[1] * token, 0.0))


@pytest.mark.parametrize("kind", ["norm", "center"])
@few
@given(rollout=rollouts())
def test_keeping_single_samples_changes_groups_of_one_alone(kind, rollout):
    estimator = bind(group_norm, scale_by_std=kind == "norm", keep_single=True)
    votes, group = voting(rollout), rollout["group"]
    single = np.array([votes[i] and (group[votes] == group[i]).sum() == 1 for i in range(len(votes))])
    row = plain.group_advantages(rollout["reward"], group, votes, kind=kind)
    agree(estimated(estimator, rollout), spread(rollout, np.where(single, rollout["reward"], row)))
