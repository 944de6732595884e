import pytest
import torch

from rlcore.errors import ModelError
from rlcore.math import readout
from rlcore.train.head import LogitScale, Projection, ValueHead, load_value_head, read_logits, save_value_head

READOUTS = {"logprob": readout.logprob, "entropy": readout.entropy}


def inputs(n=13, width=5, vocabulary=7):
    state = torch.Generator().manual_seed(0)
    hidden = torch.randn(n, width, generator=state, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(vocabulary, width, generator=state, dtype=torch.float64, requires_grad=True)
    return hidden, weight, torch.randint(0, vocabulary, (n,), generator=state)


def read(hidden, weight, token, *, temperature=0.7, sizes=None, bias=None, softcap=None, watched=(), **chunks):
    def spied(name):
        def readout_and_size(logits, tokens):
            if sizes is not None and name == "logprob":
                sizes.append(len(logits))
            return READOUTS[name](logits, tokens)

        return readout_and_size

    projection = Projection(weight, bias, LogitScale(1.0, softcap), weight.dtype)
    readouts = {name: spied(name) for name in READOUTS}
    return read_logits(projection, hidden, token, readouts, temperature=temperature, watched=watched, **chunks)


def written_out(hidden, weight, token, *, temperature=0.7, bias, softcap):
    scores = softcap * torch.tanh((hidden @ weight.T + bias) / softcap) / temperature
    return {name: READOUTS[name](scores, token) for name in READOUTS}


@pytest.mark.parametrize(
    "chunks", [dict(piece_elements=1, chunk_elements=1), dict(piece_elements=14, chunk_elements=50), {}]
)
def test_values_and_gradients_are_those_of_all_logits_at_once(chunks):
    results = []
    for compute in (written_out, lambda *given, **settings: read(*given, **settings, **chunks)):
        hidden, weight, token = inputs()
        bias = torch.linspace(-1, 1, len(weight), dtype=torch.float64, requires_grad=True)
        found = compute(hidden, weight, token, bias=bias, softcap=2.0)
        (found["logprob"].sum() + 0.3 * found["entropy"].square().sum()).backward()
        results.append((found["logprob"], found["entropy"], hidden.grad, weight.grad, bias.grad))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_no_piece_is_larger_than_allowed_and_the_backward_pass_makes_each_again():
    hidden, weight, token = inputs()
    sizes = []
    found = read(hidden, weight, token, piece_elements=28, sizes=sizes)
    assert sizes == [4, 4, 4, 1]
    found["logprob"].sum().backward()
    assert sizes == [4, 4, 4, 1] * 2
    sizes.clear()
    with torch.no_grad():
        assert not read(hidden, weight, token, piece_elements=28, sizes=sizes)["logprob"].requires_grad
    assert sizes == [4, 4, 4, 1]


def test_logits_are_not_kept_for_the_backward_pass():
    hidden, weight, token = inputs(n=64)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        found = read(hidden, weight, token)
    assert found["logprob"].requires_grad
    assert max(kept) == hidden.numel() < 64 * len(weight)


def test_a_watched_readout_has_no_gradient_and_is_not_made_again():
    hidden, weight, token = inputs()
    sizes = []
    found = read(hidden, weight, token, watched=("logprob",), sizes=sizes)
    assert found["entropy"].requires_grad
    assert not found["logprob"].requires_grad
    found["entropy"].sum().backward()
    assert sizes == [13]


def test_a_frozen_projection_gets_no_gradient():
    hidden, weight, token = inputs()
    read(hidden, weight.detach(), token)["logprob"].sum().backward()
    assert hidden.grad is not None
    assert weight.grad is None


def test_bfloat16_products_give_float32_readouts_and_gradients_in_the_types_that_came():
    hidden, weight, token = inputs()
    exact = read(hidden, weight, token)["logprob"]
    states, matrix = (x.detach().float().requires_grad_() for x in (hidden, weight))
    projection = Projection(matrix, None, LogitScale(), torch.bfloat16)
    found = read_logits(projection, states, token, READOUTS, temperature=0.7, piece_elements=21, chunk_elements=42)[
        "logprob"
    ]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact.float(), atol=0.1, rtol=0)
    found.sum().backward()
    exact.sum().backward()
    assert states.grad.dtype == matrix.grad.dtype == torch.float32
    torch.testing.assert_close(matrix.grad, weight.grad.float(), atol=0.1, rtol=0.05)


def test_temperature_divides_the_logits():
    hidden = torch.tensor([[2.0, 0.0]])
    projection = Projection(torch.eye(2), None, LogitScale(), torch.float32)
    found = read_logits(projection, hidden, torch.tensor([0]), READOUTS, temperature=0.5)
    assert float(found["logprob"]) == pytest.approx(-0.018150, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_a_temperature_that_is_no_distribution_is_refused(temperature):
    hidden, weight, token = inputs()
    with pytest.raises(ModelError, match="temperature"):
        read(hidden, weight, token, temperature=temperature)


def test_a_fresh_value_head_says_zero_and_a_saved_one_comes_back(tmp_path):
    head = load_value_head(str(tmp_path), 4)
    assert head(torch.randn(3, 4)).tolist() == [0, 0, 0]
    with torch.no_grad():
        head.weight.copy_(torch.arange(4.0))
        head.bias.fill_(2)
    save_value_head(head, tmp_path)
    again = load_value_head(str(tmp_path), 4)
    assert again(torch.ones(1, 4)).tolist() == [8.0]
    with pytest.raises(ModelError, match="width 4"):
        load_value_head(str(tmp_path), 5)
    assert isinstance(again, ValueHead)
