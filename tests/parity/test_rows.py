"""Filters, shaping, readouts and controllers against plain versions: ragged rows, split sessions, no scores."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.component import bind, invoke
from rlcore.math import absolute, k1, readout
from rlcore.seeding import generator
from rlcore_algorithms import filters, shaping
from rlcore_algorithms.controllers import adaptive_kl
from tests.parity import plain_rows as plain
from tests.parity.covered import covers

few = settings(max_examples=30, deadline=None, derandomize=True)


@st.composite
def rows(draw):
    """Raw rows in an order of their own: groups of sessions of parts, some without a token, some unscored."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    parts = random.integers(1, 3, draw(st.integers(1, 7)))
    session = np.repeat(np.arange(len(parts)) * 3 + 2, parts)
    group = np.repeat(random.integers(0, max(len(parts) // 2, 1), len(parts)) * 5, parts)
    part = np.concatenate([np.arange(n) for n in parts])
    order = random.permutation(len(session))
    sampled = random.random((len(session), draw(st.integers(1, 5)))) < draw(st.sampled_from([0.3, 0.8, 1.0]))
    score = np.repeat(random.choice(draw(st.sampled_from([[0.0, 1.0], [0.5, 1.0, 0.0, -2.0]])), len(parts)), parts)
    score[random.random(len(score)) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    return {
        "sampled": sampled,
        "mask": sampled & (random.random(sampled.shape) < 0.8),
        "tokens": random.integers(0, 2, sampled.shape),
        "session": session[order],
        "group": group[order],
        "segment": part[order],
        "score": score[order],
        "score_components": random.normal(size=(len(session), 3)),
        "stop": random.integers(0, 4, len(session)),
        "reward": random.normal(size=len(session)),
        "token_reward": random.normal(size=sampled.shape),
        "seed": int(random.integers(0, 2**31)),
        "ref_logprob": random.normal(size=sampled.shape),
        "old_logprob": random.normal(size=sampled.shape),
        "reward_model_logprob": random.normal(size=sampled.shape),
    }


def tensors(columns):
    return {n: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for n, x in columns.items()}


def of(columns, *names):
    return [columns[name] for name in names]


@covers(filters.dynamic_sampling)
@few
@given(columns=rows())
def test_dynamic_sampling_keeps_the_groups_of_the_plain_version(columns):
    found = invoke(filters.dynamic_sampling, tensors(columns))
    assert found.tolist() == plain.dynamic_sampling(*of(columns, "score", "group"))


@covers(filters.accuracy_band)
@few
@given(columns=rows(), band=st.sampled_from([(0.2, 0.8), (0.5, 0.5), (0.0, 1.0), (-2.0, 0.0)]))
def test_the_accuracy_band_keeps_the_groups_of_the_plain_version(columns, band):
    least, most = band
    found = invoke(bind(filters.accuracy_band, least=least, most=most), tensors(columns))
    assert found.tolist() == plain.accuracy_band(*of(columns, "score", "group"), least=least, most=most)


@covers(filters.score_resampling)
@few
@given(columns=rows(), by=st.sampled_from(["power", "extremes", "best_or_random"]))
def test_resampling_draws_by_the_weights_of_the_plain_version(columns, by):
    found = invoke(bind(filters.score_resampling, by=by), tensors(columns))
    score, session = of(columns, "score", "session")
    scored = sorted(np.nonzero(~np.isnan(score))[0].tolist(), key=lambda i: session[i])
    if not scored:
        assert not len(found)
        return
    weights = torch.tensor(plain.resampling_weights([score[i] for i in scored], by, 2.0), dtype=torch.float64)
    draw = generator(columns["seed"], "resampling")
    expected = torch.multinomial(weights, len(scored), replacement=True, generator=draw)
    assert session[found.tolist()].tolist() == [session[scored[k]] for k in expected.tolist()]
    assert not np.isnan(score[found.tolist()]).any()


@covers(shaping.overlong_mask)
@few
@given(columns=rows())
def test_the_overlong_mask_agrees_with_the_plain_version(columns):
    found = invoke(shaping.overlong_mask, tensors(columns)).mask.numpy()
    np.testing.assert_array_equal(found, plain.overlong_mask(*of(columns, "mask", "stop", "session")))


@covers(shaping.duplicate_mask)
@few
@given(columns=rows())
def test_the_duplicate_mask_agrees_with_the_plain_version(columns):
    names = ("mask", "tokens", "sampled", "group", "session", "segment")
    found = invoke(shaping.duplicate_mask, tensors(columns)).mask.numpy()
    np.testing.assert_array_equal(found, plain.duplicate_mask(*of(columns, *names)))


@covers(shaping.soft_overlong)
@few
@given(columns=rows(), lengths=st.sampled_from([(3, 2), (4, 4), (2, 0), (50, 10)]))
def test_the_soft_overlong_penalty_agrees_with_the_plain_version(columns, lengths):
    settings_ = {"max_length": lengths[0], "buffer": lengths[1], "factor": 0.5}
    found = invoke(bind(shaping.soft_overlong, **settings_), tensors(columns))
    cost = plain.soft_overlong(*of(columns, "sampled", "session", "segment"), **settings_)
    np.testing.assert_allclose(found.token_reward.numpy(), columns["token_reward"] - cost, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.reward.numpy(), columns["reward"] - cost.sum(1), rtol=0, atol=1e-12)


@covers(shaping.weighted_components)
@few
@given(columns=rows(), weights=st.sampled_from([(), (0.5, -1.0, 2.0)]))
def test_weighted_parts_agree_with_the_plain_version(columns, weights):
    found = invoke(bind(shaping.weighted_components, weights=weights), tensors(columns))
    total = [
        sum(w * s for w, s in zip(weights or (1.0, 1.0, 1.0), x, strict=True)) for x in columns["score_components"]
    ]
    expected = plain.placed(total, *of(columns, "sampled", "session", "segment"))
    np.testing.assert_allclose(found.token_reward.numpy(), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.reward.numpy(), expected.sum(1), rtol=0, atol=1e-12)


@covers(shaping.implicit_process_reward)
@few
@given(columns=rows(), beta=st.sampled_from([0.05, 2.0]))
def test_the_implicit_process_reward_agrees_with_the_plain_version(columns, beta):
    found = invoke(bind(shaping.implicit_process_reward, beta=beta), tensors(columns)).process_reward.numpy()
    for i, t in np.ndindex(*found.shape):
        ratio = columns["reward_model_logprob"][i, t] - columns["ref_logprob"][i, t]
        assert found[i, t] == pytest.approx(beta * ratio, rel=1e-12)


@covers(adaptive_kl)
@pytest.mark.parametrize("estimator", [k1, absolute])
@few
@given(columns=rows(), target=st.sampled_from([0.01, 0.5, 5.0]))
def test_the_adaptive_coefficient_agrees_with_the_plain_version(estimator, columns, target):
    given_ = {**tensors(columns), "logprob": tensors(columns)["old_logprob"], "kl_coefficient": 0.3}
    found = invoke(bind(adaptive_kl, target=target, horizon=20, estimator=estimator), given_).kl_coefficient
    d = columns["old_logprob"] - columns["ref_logprob"]
    kl = d if estimator is k1 else np.abs(d)
    assert found == pytest.approx(plain.adaptive_kl(0.3, kl, columns["mask"], target=target, horizon=20), rel=1e-9)


@covers(readout.logprob, readout.entropy, readout.square_sum)
@few
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.1, 3.0, 300.0]), excluded=st.booleans())
def test_readouts_agree_with_the_plain_versions(seed, scale, excluded):
    random = np.random.default_rng(seed)
    logits, token = scale * random.normal(size=(5, 7)), random.integers(0, 6, 5)
    if excluded:
        logits[:, 6] = -np.inf
    for name in ("logprob", "entropy", "square_sum"):
        found = getattr(readout, name)(torch.from_numpy(logits), torch.from_numpy(token)).numpy()
        expected = [plain.readouts(z.tolist(), t)[name] for z, t in zip(logits, token, strict=True)]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=name)
