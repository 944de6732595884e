"""The further losses, KL forms, selects and corrections against plain NumPy versions, on holes and extreme ratios."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.component import bind, invoke
from rlcore.math import absolute_straight_through, entropy_bonus, k1_straight_through, k3_straight_through
from rlcore_algorithms import corrections, losses, selects
from rlcore_algorithms.kls import k3_unbiased
from tests.parity import plain_losses as plain
from tests.parity.covered import covers

few = settings(max_examples=25, deadline=None, derandomize=True)


@st.composite
def rows(draw):
    """Columns in float64, NaN off the mask; log ratios from tiny to 1e4, advantages of a row or of each token."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    on = random.random((draw(st.integers(1, 6)), draw(st.integers(1, 6)))) < draw(st.sampled_from([0.3, 0.7, 1.0]))
    scale = draw(st.sampled_from([1e-3, 0.05, 0.3, 3.0, 200.0, 1e4]))
    advantage = random.choice([-2.0, -0.5, 0.0, 1.0, 3.0], on.shape)
    if draw(st.booleans()):
        advantage = np.broadcast_to(advantage[:, :1], on.shape)

    def column(x):
        return np.where(on, x, np.nan)

    old = -np.abs(random.normal(size=on.shape))
    now = np.minimum(old + scale * random.normal(size=on.shape), -1e-3 * random.random(on.shape))
    mass = -0.3 * random.random(on.shape)
    return {
        "on": on,
        "score": random.choice([0.0, 1.0], len(on)),
        "advantage": column(advantage),
        "old_logprob": column(old),
        "logprob": column(now),
        "ref_logprob": column(old + min(scale, 30.0) * random.normal(size=on.shape)),
        "kept_logmass": column(mass),
        "rollout_logprob": column(old - mass + 0.3 * min(scale, 1e3) * random.normal(size=on.shape)),
        "weight": column(random.choice([0.0, 0.5, 1.0, 2.0], on.shape)),
        "selected": on & (random.random(on.shape) < 0.4),
    }


def tensors(columns, leaf=None):
    found = {name: torch.from_numpy(np.ascontiguousarray(x)) for name, x in columns.items() if name != "on"}
    if leaf is not None:
        found[leaf].requires_grad_()
    return {**found, "mask": torch.from_numpy(columns["on"]), "seed": 5}


def agree(loss, columns, expected, slopes):
    given_ = tensors(columns, "logprob")
    output = invoke(loss, given_)
    found = getattr(output, "loss", output)
    (gradient,) = torch.autograd.grad(found.sum(), given_["logprob"])
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gradient.numpy(), slopes, rtol=1e-9, atol=1e-12)


def without(columns, name):
    return {n: x for n, x in columns.items() if n != name}


CASES = {
    "gspo": (bind(losses.gspo, clip_low=0.1, clip_high=0.2), plain.gspo, {"low": 0.1, "high": 0.2}),
    "gspo capped": (
        bind(losses.gspo, clip_low=0.1, clip_high=0.2, dual_clip=1.5),
        plain.gspo,
        {"low": 0.1, "high": 0.2, "cap": 1.5},
    ),
    "gmpo": (bind(losses.gmpo, clip_low=0.4, clip_high=0.2), plain.gmpo, {"low": 0.4, "high": 0.2}),
    "vespo": (losses.vespo, plain.vespo, {}),
    "cispo": (losses.cispo, plain.cispo, {"low": 1.0, "high": 4.0}),
    "cispo bounded": (bind(losses.cispo, clip_low=0.2, clip_high=0.1), plain.cispo, {"low": 0.2, "high": 0.1}),
    "cispo by row": (
        bind(losses.cispo, level="sequence", clip_low=0.1, clip_high=0.2),
        plain.cispo_sequence,
        {"low": 0.1, "high": 0.2},
    ),
    "sapo": (losses.sapo, plain.sapo, {}),
    "sapo by row": (bind(losses.sapo, level="sequence"), plain.sapo_sequence, {}),
    "dro": (bind(losses.dro, beta=0.3), plain.dro, {"beta": 0.3}),
    "dppo_tv": (
        bind(losses.dppo_tv, low=0.1, high=0.2, ratio_cap=3.0),
        plain.dppo,
        {"kind": "tv", "low": 0.1, "high": 0.2, "cap": 3.0},
    ),
    "dppo_tv pulled": (
        bind(losses.dppo_tv, low=0.1, high=0.2, ratio_cap=None, pull=1e-3),
        plain.dppo,
        {"kind": "tv", "low": 0.1, "high": 0.2, "cap": math.inf, "pull": 1e-3},
    ),
    "dppo_kl": (
        bind(losses.dppo_kl, low=0.03, high=0.05),
        plain.dppo,
        {"kind": "kl", "low": 0.03, "high": 0.05, "cap": 20.0},
    ),
    "kl_cov": (bind(losses.kl_cov, coefficient=0.5), plain.kl_cov, {"coefficient": 0.5}),
    "positive_nll": (losses.positive_nll, plain.positive_nll, {}),
    "two-sided clip": (
        bind(losses.clipped, clip_low=0.2, clip_high=0.28, dual_clip=2.0),
        plain.two_sided,
        {"low": 0.2, "high": 0.28, "cap": 2.0},
    ),
    "decoupled": (losses.decoupled, plain.decoupled, {"low": 0.2, "high": 0.2, "cap": None}),
    "decoupled capped": (
        bind(losses.decoupled, weight_cap=2.0),
        plain.decoupled,
        {"low": 0.2, "high": 0.2, "cap": 2.0},
    ),
    "k3_unbiased": (k3_unbiased, plain.k3_unbiased, {}),
    "k3_unbiased by row": (bind(k3_unbiased, level="sequence"), plain.k3_unbiased_sequence, {}),
}


@covers(*(loss for loss, *_ in CASES.values()))
@pytest.mark.parametrize("name", CASES)
@few
@given(columns=rows())
def test_a_loss_agrees_with_the_plain_version_in_value_and_gradient(name, columns):
    loss, version, options = CASES[name]
    for given_ in (columns, without(columns, "weight")) if name in ("gmpo", "vespo") else (columns,):
        agree(loss, given_, *version(given_, **options))


@covers(k1_straight_through, absolute_straight_through, k3_straight_through)
@pytest.mark.parametrize(
    ("kind", "estimator"),
    [("k1", k1_straight_through), ("abs", absolute_straight_through), ("k3", k3_straight_through)],
)
@few
@given(columns=rows())
def test_a_straight_through_kl_has_the_value_of_its_kind_and_the_gradient_of_k2(kind, estimator, columns):
    clean = {n: np.nan_to_num(x) if x.dtype == np.float64 else x for n, x in columns.items()}
    clean["on"] = np.ones_like(columns["on"])
    agree(estimator, clean, *plain.straight_through(clean, kind=kind))


@covers(selects.kl_cov)
@few
@given(columns=rows(), share=st.sampled_from([1e-4, 0.2, 1.0]))
def test_kl_cov_chooses_the_tokens_of_the_highest_covariance(columns, share):
    found = invoke(bind(selects.kl_cov, share=share), tensors(columns)).selected.numpy()
    expected = plain.covariances(columns)
    assert found.sum() == (max(1, int(share * len(expected))) if expected else 0)
    assert not (found & ~columns["on"]).any()
    chosen = [v for k, v in expected.items() if found[k]]
    left = [v for k, v in expected.items() if not found[k]]
    assert not chosen or not left or min(chosen) >= max(left) - 1e-9 * max(map(abs, left))


@covers(selects.clip_cov)
@few
@given(columns=rows(), share=st.sampled_from([1e-4, 0.3, 1.0]))
def test_clip_cov_drops_as_many_candidates_as_it_may(columns, share):
    select = bind(selects.clip_cov, share=share, low=0.1, high=3.0)
    found = invoke(select, without_weight(tensors(columns))).weight.numpy()
    candidates = set()
    for (i, t), value in plain.covariances(columns).items():
        ratio = math.exp(plain.clamp(columns["logprob"][i, t] - columns["old_logprob"][i, t]))
        a = columns["advantage"][i, t]
        if 0.1 < value < 3.0 and not -a * plain.clamp(ratio, 0.8, 1.2) > -a * ratio:
            candidates.add((i, t))
    dropped = {(int(i), int(t)) for i, t in zip(*np.nonzero(columns["on"] & (found == 0)), strict=True)}
    assert dropped <= candidates
    assert len(dropped) == min(max(1, int(share * columns["on"].sum())), len(candidates))


def without_weight(columns):
    return {n: x for n, x in columns.items() if n != "weight"}


@covers(losses.outcome_cross_entropy)
@few
@given(columns=rows(), beta=st.sampled_from([0.05, 1.0]))
def test_the_loss_of_a_reward_model_agrees_with_the_plain_version(columns, beta):
    given_ = {**columns, "score": np.random.default_rng(len(columns["on"])).random(len(columns["on"]))}
    agree(bind(losses.outcome_cross_entropy, beta=beta), given_, *plain.outcome_cross_entropy(given_, beta=beta))


@covers(entropy_bonus)
@few
@given(columns=rows())
def test_the_entropy_bonus_agrees_with_the_plain_version(columns):
    # It is handed 0 off the mask.
    entropy = -np.where(columns["on"], columns["logprob"], 0.0)
    values, slopes = plain.entropy_bonus({"on": columns["on"], "entropy": entropy})
    leaf = torch.from_numpy(entropy).requires_grad_()
    found = entropy_bonus(leaf)
    (gradient,) = torch.autograd.grad(found[torch.from_numpy(columns["on"])].sum(), [leaf])
    np.testing.assert_allclose(found.detach().numpy(), values, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(gradient.numpy(), slopes)


@covers(corrections.bypass)
@few
@given(columns=rows())
def test_the_bypass_agrees_with_the_plain_version(columns):
    found = invoke(corrections.bypass, tensors(columns)).old_logprob.numpy()
    for i, t in zip(*np.nonzero(columns["on"]), strict=True):
        expected = columns["rollout_logprob"][i, t] + columns["kept_logmass"][i, t]
        assert found[i, t] == pytest.approx(expected, rel=1e-12)


@covers(selects.m2po)
@few
@given(columns=rows(), threshold=st.sampled_from([1e-6, 0.04, 1.0]))
def test_m2po_keeps_the_most_tokens_whose_second_moment_is_allowed(columns, threshold):
    found = invoke(bind(selects.m2po, threshold=threshold), without_weight(tensors(columns))).weight.numpy()
    assert {(int(i), int(t)) for i, t in zip(*np.nonzero(found), strict=True)} == plain.m2po(columns, threshold)


@covers(selects.top_entropy)
@few
@given(columns=rows(), share=st.sampled_from([0.1, 0.2, 0.5, 1.0]))
def test_top_entropy_keeps_what_lies_at_or_above_the_quantile(columns, share):
    given_ = without_weight(tensors(columns))
    found = invoke(bind(selects.top_entropy, share=share), {**given_, "entropy": -given_["logprob"]}).weight.numpy()
    on = columns["on"]
    expected = np.zeros(on.shape)
    if on.any():
        entropy = -columns["logprob"]
        limit = np.quantile(entropy[on], 1 - share)
        expected[on] = entropy[on] >= limit - 1e-12 * abs(limit)
    np.testing.assert_array_equal(found, expected)


@covers(selects.opsm)
@few
@given(columns=rows(), threshold=st.sampled_from([0.0, 0.1, 5.0]))
def test_opsm_drops_bad_tokens_of_rows_that_drifted(columns, threshold):
    found = invoke(bind(selects.opsm, threshold=threshold), without_weight(tensors(columns))).weight.numpy()
    for i in range(len(found)):
        steps = np.nonzero(columns["on"][i])[0]
        mean = lambda n, i=i, steps=steps: columns[n][i, steps].mean()  # noqa: E731
        far = len(steps) and mean("rollout_logprob") + mean("kept_logmass") - mean("logprob") > threshold
        for t in range(found.shape[1]):
            assert found[i, t] == (t in steps and not (far and columns["advantage"][i, t] < 0))


@covers(corrections.truncated, corrections.icepop, selects.current_weights)
@pytest.mark.parametrize("level", ["token", "sequence", "sequence_mean"])
@pytest.mark.parametrize(("low", "high"), [(None, 2.0), (0.5, 5.0), (None, None)])
@few
@given(columns=rows())
def test_importance_weights_agree_with_the_plain_version(level, low, high, columns):
    for correction, zero in ((corrections.truncated, False), (corrections.icepop, True)):
        given_ = tensors(columns)
        expected = plain.weights(columns, level=level, low=low, high=high, zero=zero)
        bound = bind(correction, level=level, low=low, high=high)
        np.testing.assert_allclose(invoke(bound, without_weight(given_)).weight.numpy(), expected, rtol=1e-9, atol=0)
        moment = bind(selects.current_weights, level=level, low=low, high=high, outside="zero" if zero else "bound")
        now = {**without_weight(given_), "logprob": given_["old_logprob"]}
        np.testing.assert_allclose(invoke(moment, now).weight.numpy(), expected, rtol=1e-9, atol=0)
        earlier = np.where(columns["on"], np.nan_to_num(columns["weight"]), 0)
        np.testing.assert_allclose(invoke(bound, given_).weight.numpy(), expected * earlier, rtol=1e-9, atol=0)


@covers(corrections.rejected, selects.current_rejection)
@pytest.mark.parametrize("level", ["token", "sequence_sum", "sequence_mean", "sequence_max"])
@pytest.mark.parametrize(("measure", "low", "high"), [("k1", 0.7, 1.2), ("k2", None, 0.05), ("k3", None, 0.02)])
@few
@given(columns=rows())
def test_rejection_agrees_with_the_plain_version(level, measure, low, high, columns):
    rule = {"level": level, "measure": measure, "low": low, "high": high}
    found = invoke(bind(corrections.rejected, **rule), tensors(columns)).mask.numpy()
    np.testing.assert_array_equal(found, plain.kept(columns, **rule))
    now = {**tensors(columns), "logprob": torch.from_numpy(columns["old_logprob"])}
    at_the_moment = invoke(bind(selects.current_rejection, **rule), now).mask.numpy()
    np.testing.assert_array_equal(at_the_moment, plain.kept(columns, **rule))


@covers(corrections.normalized)
@few
@given(columns=rows(), over=st.sampled_from(["token", "row"]))
def test_normalized_weights_have_a_mean_of_1(columns, over):
    found = invoke(bind(corrections.normalized, over=over), tensors(columns)).weight.numpy()
    on, before = columns["on"], np.nan_to_num(columns["weight"])
    per_row = [before[i, on[i]].mean() for i in range(len(on)) if on[i].any()]
    mean = (before[on].mean() if over == "token" else np.mean(per_row)) if per_row else 0.0
    np.testing.assert_allclose(found, np.where(on, before / (mean if mean > 1e-8 else 1.0), 0), rtol=1e-9)


@covers(corrections.measured)
@few
@given(columns=rows())
def test_diagnostics_agree_with_the_plain_versions(columns):
    found = {
        n: x[0] if isinstance(x, tuple) else x
        for n, x in invoke(corrections.measured, tensors(columns)).metrics.items()
    }
    on = columns["on"]
    live = [i for i in range(len(on)) if on[i].any()]
    d = {i: plain.log_ratios(columns, i) for i in live}
    theirs = {i: columns["rollout_logprob"][i, on[i]] for i in live}

    def close(name, expected):
        x = found[name].numpy()
        x = x if x.ndim == 0 else x[on] if x.ndim == 2 else x[live]
        np.testing.assert_allclose(x, expected, rtol=1e-9, atol=1e-12)

    tokens = np.array([x for i in live for x in d[i]])
    near = np.clip(tokens, -20, 20)
    close("kl", -tokens)
    close("k3", np.expm1(near) - near)
    close("chi_square", (np.exp(2 * near) - 1).mean() if live else 0.0)
    rows_ = np.array([math.fsum(d[i]) for i in live])
    close("row_chi_square", (np.exp(2 * np.clip(rows_, -20, 20)) - 1).mean() if live else 0.0)
    close("sampler_log_perplexity", [-theirs[i].mean() for i in live])
    close("trainer_log_perplexity", [-(theirs[i] + d[i]).mean() for i in live])
    close("log_perplexity_difference", [-np.mean(d[i]) for i in live])
    close("perplexity_ratio", [math.exp(plain.clamp(-np.mean(d[i]))) for i in live])
