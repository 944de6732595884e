import pytest
import torch

from rlcore.errors import ModelError
from rlcore.math import readout
from rlcore.train.head import ValueHead, load_value_head, read_logits, save_value_head

READOUTS = {"logprob": readout.logprob, "entropy": readout.entropy}


def inputs(n=13, width=5, vocabulary=7):
    state = torch.Generator().manual_seed(0)
    hidden = torch.randn(n, width, generator=state, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(vocabulary, width, generator=state, dtype=torch.float64, requires_grad=True)
    return hidden, weight, torch.randint(0, vocabulary, (n,), generator=state)


def read(hidden, weight, token, *, temperature=0.7, sizes=None, **settings):
    def logits(states):
        if sizes is not None:
            sizes.append(len(states))
        return states @ weight.T

    return read_logits(logits, hidden, token, READOUTS, temperature=temperature, vocabulary=len(weight), **settings)


def test_values_and_gradients_do_not_depend_on_the_chunks():
    results = []
    for elements in (7, 28, 10_000):
        hidden, weight, token = inputs()
        found = read(hidden, weight, token, chunk_elements=elements)
        (found["logprob"].sum() + 0.3 * found["entropy"].square().sum()).backward()
        results.append((found["logprob"], found["entropy"], hidden.grad, weight.grad))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_no_chunk_is_larger_than_allowed_and_the_backward_pass_makes_each_again():
    hidden, weight, token = inputs()
    sizes = []
    found = read(hidden, weight, token, chunk_elements=28, sizes=sizes)
    assert sizes == [4, 4, 4, 1]
    found["logprob"].sum().backward()
    assert sorted(sizes) == [1, 1, 4, 4, 4, 4, 4, 4]
    sizes.clear()
    with torch.no_grad():
        read(hidden, weight, token, chunk_elements=28, sizes=sizes)
    assert sizes == [4, 4, 4, 1]


def test_logits_are_not_kept_for_the_backward_pass():
    hidden, weight, token = inputs(n=64)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        found = read(hidden, weight, token, chunk_elements=28)
    assert found["logprob"].requires_grad
    assert max(kept, default=0) <= hidden.numel()


def test_a_watched_readout_has_no_gradient():
    hidden, weight, token = inputs()
    found = read(hidden, weight, token, watched=("entropy",), chunk_elements=28)
    assert found["logprob"].requires_grad
    assert not found["entropy"].requires_grad


def test_temperature_divides_the_logits():
    hidden = torch.tensor([[2.0, 0.0]])
    found = read_logits(lambda h: h, hidden, torch.tensor([0]), READOUTS, temperature=0.5, vocabulary=2)
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
