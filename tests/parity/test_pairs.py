"""Losses over pairs and labels against plain NumPy versions: values, gradients, sides that are masked, garbage."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.component import bind, invoke
from rlcore.errors import ComponentError, ConfigError
from rlcore.math import pair_difference
from rlcore.math.kl import forward_top
from rlcore_algorithms import losses
from tests.parity.covered import covers

few = settings(max_examples=40, deadline=None, derandomize=True)


@st.composite
def columns(draw):
    """Rows of up to four pairs in any order, in float64, NaN off the mask; some sides have nothing on it."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, width = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    order = random.permutation(2 * count)
    on = random.random((2 * count, width)) < draw(st.sampled_from([0.3, 0.8, 1.0]))
    scale = draw(st.sampled_from([1e-3, 0.3, 30.0]))

    def column(x):
        return np.where(on, x, np.nan)

    return {
        "on": on,
        "pair": np.repeat(np.arange(count) * 7 + 3, 2)[order],
        "chosen": np.tile([True, False], count)[order],
        "desirable": random.random(2 * count) < 0.5,
        "logprob": column(-scale * np.abs(random.normal(size=on.shape))),
        "ref_logprob": column(-scale * np.abs(random.normal(size=on.shape))),
        "new_value": column(random.normal(size=on.shape)),
        "mismatch_kl": abs(float(random.normal())),
    }


def log_sigmoid(x):
    return -math.log1p(math.exp(-x)) if x > -500 else x


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -500 else 0.0


def row_of(c, name, i, mean):
    """The sum or mean of a column over a row's tokens, and its derivative by each of them."""
    tokens = [t for t in range(c["on"].shape[1]) if c["on"][i, t]]
    share = 1 / len(tokens) if mean else 1.0
    return share * math.fsum(c[name][i, t] for t in tokens), dict.fromkeys(tokens, share)


def over_pairs(c, leaf, reward, loss, *, mean):
    """Values [B] and slopes [B, T] of the sum over rows, by `loss(margin) -> (value, slope)`."""
    values, slopes = np.zeros(len(c["on"])), np.zeros(c["on"].shape)
    for pair in set(c["pair"].tolist()):
        good, bad = (
            next(i for i in range(len(values)) if c["pair"][i] == pair and c["chosen"][i] == side)
            for side in (True, False)
        )
        if not (c["on"][good].any() and c["on"][bad].any()):
            continue
        margin = reward(c, good) - reward(c, bad)
        value, slope = loss(margin)
        values[[good, bad]] = value
        for i, sign in ((good, 1), (bad, -1)):
            for t, share in row_of(c, leaf, i, mean)[1].items():
                slopes[i, t] = 2 * sign * slope * share  # both rows of the pair have its loss
    return values, slopes


def agree(loss, c, leaf, expected, slopes):
    given_ = {name: torch.from_numpy(np.ascontiguousarray(x)) for name, x in c.items() if isinstance(x, np.ndarray)}
    given_ |= {"mask": given_.pop("on"), "mismatch_kl": c["mismatch_kl"]}
    given_[leaf].requires_grad_()
    output = invoke(loss, given_)
    np.testing.assert_allclose(output.loss.detach().numpy(), expected, rtol=1e-9, atol=1e-9)
    (gradient,) = torch.autograd.grad(output.loss.sum(), given_[leaf])
    np.testing.assert_allclose(gradient.numpy(), slopes, rtol=1e-9, atol=1e-9)
    return output.metrics


@covers(losses.dpo)
@few
@given(columns(), st.sampled_from([0.05, 1.0]), st.sampled_from([0.0, 0.2]))
def test_dpo(c, beta, e):
    def reward(c, i):
        return beta * (row_of(c, "logprob", i, False)[0] - row_of(c, "ref_logprob", i, False)[0])

    def loss(m):
        value = -(1 - e) * log_sigmoid(m) - e * log_sigmoid(-m)
        return value, beta * (-(1 - e) * sigmoid(-m) + e * sigmoid(m))

    part = bind(losses.dpo, beta=beta, label_smoothing=e)
    agree(part, c, "logprob", *over_pairs(c, "logprob", reward, loss, mean=False))


@covers(losses.ipo)
@few
@given(columns(), st.sampled_from([0.1, 1.0]), st.booleans())
def test_ipo(c, beta, mean):
    def reward(c, i):
        return row_of(c, "logprob", i, mean)[0] - row_of(c, "ref_logprob", i, mean)[0]

    def loss(m):
        return (m - 0.5 / beta) ** 2, 2 * (m - 0.5 / beta)

    part = bind(losses.ipo, beta=beta, per_token=mean)
    agree(part, c, "logprob", *over_pairs(c, "logprob", reward, loss, mean=mean))


@covers(losses.simpo)
@few
@given(columns(), st.sampled_from([0.5, 2.0]), st.sampled_from([0.0, 0.7]))
def test_simpo(c, beta, gamma):
    def reward(c, i):
        return beta * row_of(c, "logprob", i, True)[0]

    def loss(m):
        return -log_sigmoid(m - gamma), -beta * sigmoid(gamma - m)

    part = bind(losses.simpo, beta=beta, gamma=gamma)
    agree(part, c, "logprob", *over_pairs(c, "logprob", reward, loss, mean=True))


@covers(losses.bradley_terry)
@few
@given(columns())
def test_bradley_terry(c):
    def reward(c, i):
        return row_of(c, "new_value", i, False)[0]

    def loss(m):
        return -log_sigmoid(m), -sigmoid(-m)

    agree(losses.bradley_terry, c, "new_value", *over_pairs(c, "new_value", reward, loss, mean=False))


@covers(losses.kto)
@few
@given(columns(), st.sampled_from([0.1, 1.0]))
def test_kto(c, beta):
    values, slopes = np.zeros(len(c["on"])), np.zeros(c["on"].shape)
    for i, on in enumerate(c["on"]):
        if not on.any():
            continue
        ratio = row_of(c, "logprob", i, False)[0] - row_of(c, "ref_logprob", i, False)[0]
        sign, weight = (1, 1.0) if c["desirable"][i] else (-1, 1.5)
        inside = sigmoid(beta * sign * (ratio - c["mismatch_kl"]))
        values[i] = weight * (1 - inside)
        slopes[i, on] = -weight * beta * sign * inside * (1 - inside)
    agree(bind(losses.kto, beta=beta, undesirable_weight=1.5), c, "logprob", values, slopes)


def test_a_pair_with_two_rows_of_one_side_is_refused():
    mask, pair = torch.ones(3, 1, dtype=torch.bool), torch.tensor([4, 4, 4])
    with pytest.raises(ComponentError, match="pair 4 has several rows of one side"):
        pair_difference(torch.zeros(3), mask, pair, torch.tensor([True, True, False]))


@pytest.mark.parametrize(
    ("loss", "option"),
    [("dpo", {"beta": 0.0}), ("dpo", {"label_smoothing": 0.5}), ("ipo", {"beta": -1.0}), ("simpo", {"gamma": -0.1}),
     ("simpo", {"beta": 0.0}), ("kto", {"desirable_weight": 0.0})],
)  # fmt: skip
def test_an_option_out_of_its_range_is_named(loss, option):
    random = torch.zeros(2, 1)
    given_ = {"logprob": random, "ref_logprob": random, "mask": random == 0, "pair": torch.tensor([0, 0])}
    given_ |= {"chosen": torch.tensor([True, False]), "desirable": torch.tensor([True, False]), "mismatch_kl": 0.0}
    with pytest.raises(ConfigError, match=next(iter(option))):
        invoke(bind(getattr(losses, loss), **option), given_)


@covers(losses.reverse_kl, losses.forward_kl)
@pytest.mark.parametrize(("loss", "column"), [("reverse_kl", "teacher_kl"), ("forward_kl", "teacher_forward_kl")])
def test_a_loss_of_distillation_is_its_column_on_the_mask(loss, column):
    values, mask = torch.tensor([[0.5, math.nan], [2.0, 0.25]]), torch.tensor([[True, False], [True, True]])
    assert invoke(getattr(losses, loss), {column: values, "mask": mask}).tolist() == [[0.5, 0.0], [2.0, 0.25]]


@pytest.mark.parametrize("top", [0, 1, 3, 50])
def test_the_forward_divergence_over_some_tokens(top):
    random = np.random.default_rng(top)
    p, q = (random.normal(size=(5, 7)) * 2 for _ in range(2))
    log_p, log_q = (x - np.log(np.exp(x).sum(-1, keepdims=True)) for x in (p, q))
    expected = [
        sum(np.exp(log_q[i, v]) * (log_q[i, v] - log_p[i, v]) for v in np.argsort(-log_q[i])[: top or 7])
        for i in range(5)
    ]
    found = forward_top(torch.from_numpy(p), torch.from_numpy(q), top=top)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12)
