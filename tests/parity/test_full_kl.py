"""KL over the whole vocabulary, read in the head beside a second model: against a plain version, value and gradient."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.errors import ModelError
from rlcore.math import readout
from rlcore.math.kl import full
from rlcore.train.head import LogitScale, Projection, ReferenceLogits, read_logits
from rlcore_algorithms.kls import full as term
from tests.parity.covered import covers

few = settings(max_examples=30, deadline=None, derandomize=True)


def plain(logits, ref_logits):
    """sum_v p_v log(p_v / q_v) at one position, and its derivative by each logit, p_v (log(p_v / q_v) - KL)."""

    def log_softmax(z):
        top = max(z)
        return [x - top - math.log(math.fsum(math.exp(y - top) for y in z)) for x in z]

    log_p, log_q = log_softmax(logits), log_softmax(ref_logits)
    difference = [a - b for a, b in zip(log_p, log_q, strict=True)]
    kl = math.fsum(math.exp(a) * d for a, d in zip(log_p, difference, strict=True))
    return kl, [math.exp(a) * (d - kl) for a, d in zip(log_p, difference, strict=True)]


@st.composite
def two_models(draw):
    """Hidden states of two widths over one vocabulary, softcaps, a temperature, and sizes of pieces and chunks."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, vocabulary = draw(st.integers(1, 9)), draw(st.integers(2, 7))
    scale = draw(st.sampled_from([0.1, 1.0, 5.0]))

    def tensor(*shape):
        return torch.from_numpy(scale * random.normal(size=shape))

    return {
        "hidden": tensor(n, 3),
        "weight": tensor(vocabulary, 3),
        "bias": tensor(vocabulary) if draw(st.booleans()) else None,
        "ref_hidden": tensor(n, 2),
        "ref_weight": tensor(vocabulary, 2),
        "token": torch.from_numpy(random.integers(0, vocabulary, n)),
        "softcap": draw(st.sampled_from([None, 2.0])),
        "ref_softcap": draw(st.sampled_from([None, 3.0])),
        "temperature": draw(st.sampled_from([0.5, 1.0])),
        "sizes": draw(st.sampled_from([(1, 1), (14, 28), (2**20, 2**20)])),
    }


def capped(z, cap):
    return z if cap is None else cap * np.tanh(z / cap)


def read(given_, **settings_):
    own = Projection(given_["weight"], given_["bias"], LogitScale(1.0, given_["softcap"]), torch.float64)
    theirs = Projection(given_["ref_weight"], None, LogitScale(1.0, given_["ref_softcap"]), torch.float64)
    return read_logits(
        own,
        given_["hidden"],
        given_["token"],
        {"logprob": readout.logprob},
        temperature=given_["temperature"],
        reference=ReferenceLogits(theirs, given_["ref_hidden"], {"full_kl": full}),
        piece_elements=given_["sizes"][0],
        chunk_elements=given_["sizes"][1],
        **settings_,
    )


@covers(term)
@few
@given(given_=two_models())
def test_the_full_kl_of_two_models_agrees_with_the_plain_version_in_value_and_gradient(given_):
    hidden = given_["hidden"].requires_grad_()
    for name in ("ref_hidden", "ref_weight"):
        given_[name].requires_grad_()
    found = read(given_)
    # Another readout of the same piece must not mix with it.
    (found["full_kl"].sum() + 0.0 * found["logprob"].sum()).backward()
    weight, state = given_["weight"].numpy(), hidden.detach().numpy()
    raw = state @ weight.T + (0.0 if given_["bias"] is None else given_["bias"].numpy())
    z = capped(raw, given_["softcap"]) / given_["temperature"]
    other = given_["ref_hidden"].detach().numpy() @ given_["ref_weight"].detach().numpy().T
    q = capped(other, given_["ref_softcap"]) / given_["temperature"]
    values, slopes = zip(*(plain(a.tolist(), b.tolist()) for a, b in zip(z, q, strict=True)), strict=True)
    np.testing.assert_allclose(term(found["full_kl"][None])[0].detach().numpy(), values, rtol=1e-9, atol=1e-12)
    inner = 1.0 if given_["softcap"] is None else 1 - np.tanh(raw / given_["softcap"]) ** 2
    expected = (np.array(slopes) * inner / given_["temperature"]) @ weight
    np.testing.assert_allclose(hidden.grad.numpy(), expected, rtol=1e-7, atol=1e-10)
    assert given_["ref_hidden"].grad is None
    assert given_["ref_weight"].grad is None


def example():
    random = torch.Generator().manual_seed(2)
    return {
        "hidden": torch.randn(5, 3, generator=random, dtype=torch.float64).requires_grad_(),
        "weight": torch.randn(4, 3, generator=random, dtype=torch.float64),
        "bias": None,
        "ref_hidden": torch.randn(5, 2, generator=random, dtype=torch.float64),
        "ref_weight": torch.randn(4, 2, generator=random, dtype=torch.float64),
        "token": torch.zeros(5, dtype=torch.int64),
        "softcap": None,
        "ref_softcap": None,
        "temperature": 1.0,
        "sizes": (8, 8),
    }


def test_a_model_beside_itself_is_at_no_distance():
    given_ = example()
    given_ |= {"ref_hidden": given_["hidden"].detach(), "ref_weight": given_["weight"]}
    found = read(given_)["full_kl"]
    found.sum().backward()
    torch.testing.assert_close(found.detach(), torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-15)
    torch.testing.assert_close(given_["hidden"].grad, torch.zeros(5, 3, dtype=torch.float64), rtol=0, atol=1e-15)


def test_it_can_be_watched_without_a_gradient():
    given_ = example()
    found = read(given_, watched=("full_kl",))
    assert not found["full_kl"].requires_grad
    assert found["logprob"].requires_grad
    found["logprob"].sum().backward()


@pytest.mark.parametrize("name", ["ref_hidden", "ref_weight"])
def test_another_vocabulary_or_other_positions_are_refused(name):
    given_ = example()
    given_[name] = given_[name][:-1]
    with pytest.raises(ModelError, match="policy's own: 4 and 5"):
        read(given_)
