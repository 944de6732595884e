"""Losses, KL and reductions against plain NumPy versions: values and gradients, holes, garbage, extreme ratios."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.component import bind, invoke
from rlcore.math import Counts, absolute, k1, k2, k3, weighted_loss
from rlcore_algorithms.losses import clipped, nll, policy_gradient, value_clipped
from rlcore_algorithms.reductions import (
    constant,
    prompt_mean,
    sequence_mean_token_mean,
    sequence_mean_token_sum,
    token_mean,
    token_sum,
)
from tests.parity import plain
from tests.parity.covered import covers

few = settings(max_examples=40, deadline=None, derandomize=True)
REDUCTIONS = {
    "token_mean": token_mean,
    "token_sum": token_sum,
    "sequence_mean_token_mean": sequence_mean_token_mean,
    "sequence_mean_token_sum": sequence_mean_token_sum,
    "constant": bind(constant, length=6),
    "prompt_mean": prompt_mean,
}


@st.composite
def tokens(draw):
    """Columns of a loss in float64, with NaN off the mask and log ratios from tiny to far beyond the clamp."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    on = random.random((draw(st.integers(1, 6)), draw(st.integers(1, 6)))) < draw(st.sampled_from([0.2, 0.7, 1.0]))
    scale = draw(st.sampled_from([1e-3, 0.3, 3.0, 30.0, 1e4]))

    def column(x):
        return np.where(on, x, np.nan)

    old = -np.abs(random.normal(size=on.shape))
    return {
        "on": on,
        "group": random.integers(0, 3, len(on)) * 5,
        "old_logprob": column(old),
        "ref_logprob": column(old + 0.5 * random.normal(size=on.shape)),
        "logprob": column(old + scale * random.normal(size=on.shape)),
        "advantage": column(random.choice([-2.0, -0.5, 0.0, 1.0, 3.0], on.shape)),
        "value": column(random.normal(size=on.shape)),
        "new_value": column(random.normal(size=on.shape)),
        "returns": column(random.normal(size=on.shape)),
    }


def torch_columns(columns):
    result = {name: torch.from_numpy(x) for name, x in columns.items() if name != "on"}
    return {**result, "mask": torch.from_numpy(columns["on"])}


def compare(loss, columns, leaf, plain_loss):
    """Value and gradient, token by token."""
    given_ = torch_columns(columns)
    given_[leaf].requires_grad_()
    output = invoke(loss, given_)
    found = output[0] if isinstance(output, tuple) else output
    (gradient,) = torch.autograd.grad(found.sum(), given_[leaf])
    expected, slope = np.zeros(columns["on"].shape), np.zeros(columns["on"].shape)
    for i, t in zip(*np.nonzero(columns["on"]), strict=True):
        expected[i, t], slope[i, t] = plain_loss({n: x[i, t] for n, x in columns.items() if x.ndim == 2})
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gradient.numpy(), slope, rtol=1e-9, atol=1e-12)


@covers(clipped)
@few
@given(
    columns=tokens(),
    low=st.sampled_from([0.0, 0.2, 1.0]),
    high=st.sampled_from([0.1, 0.28]),
    dual=st.sampled_from([None, 3.0]),
)
def test_the_clipped_loss_agrees_with_the_plain_version(columns, low, high, dual):
    loss = bind(clipped, clip_low=low, clip_high=high, dual_clip=dual)
    compare(
        loss,
        columns,
        "logprob",
        lambda x: plain.clipped(x["logprob"], x["old_logprob"], x["advantage"], low=low, high=high, dual=dual),
    )


@covers(policy_gradient, nll)
@few
@given(columns=tokens())
def test_the_policy_gradient_and_the_likelihood_agree_with_the_plain_versions(columns):
    compare(policy_gradient, columns, "logprob", lambda x: plain.policy_gradient(x["logprob"], x["advantage"]))
    compare(nll, columns, "logprob", lambda x: plain.nll(x["logprob"]))


@covers(value_clipped)
@few
@given(columns=tokens(), clip=st.sampled_from([0.05, 0.2, 5.0]))
def test_the_value_loss_agrees_with_the_plain_version(columns, clip):
    compare(
        bind(value_clipped, clip=clip),
        columns,
        "new_value",
        lambda x: plain.value_clipped(x["new_value"], x["value"], x["returns"], clip=clip),
    )


@covers(k1, k2, k3, absolute)
@pytest.mark.parametrize("estimator", [k1, k2, k3, absolute], ids=lambda f: f.__name__)
@few
@given(columns=tokens())
def test_kl_agrees_with_the_plain_version(estimator, columns):
    # A KL term is handed 0 off the mask.
    clean = {n: np.nan_to_num(x) if x.dtype == np.float64 else x for n, x in columns.items()}
    compare(
        estimator,
        {**clean, "on": np.ones_like(columns["on"])},
        "logprob",
        lambda x: plain.kl(estimator.__name__, x["logprob"], x["ref_logprob"]),
    )


@covers(*REDUCTIONS.values())
@pytest.mark.parametrize("name", REDUCTIONS)
@few
@given(columns=tokens(), cut=st.integers(0, 6))
def test_reductions_agree_with_the_plain_version_in_however_many_parts(name, columns, cut):
    mask, group, loss = (torch.from_numpy(columns[n]) for n in ("on", "group", "advantage"))
    parts = [slice(0, cut), slice(cut, None)]
    counts = Counts.of(mask, group)
    found = 0.0
    for part in parts:
        weights = invoke(REDUCTIONS[name], {"mask": mask[part], "group": group[part], "counts": counts})
        found += float(weighted_loss(loss[part], weights, mask[part]))
    expected = plain.reduced(name, columns["advantage"], columns["on"], columns["group"], 6)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
