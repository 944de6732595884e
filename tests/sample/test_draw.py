"""Drawing: the frequencies are the probabilities, and a row's draw is its own affair."""

import numpy as np
import pytest
import torch

from rlcore.sample.draw import BLOCK, FIRST_LOOK, SamplingShape, draw, uniform


def shape_of(rows, *, temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, greedy=False):
    values = (temperature, top_p, top_k, min_p, greedy)
    kinds = (torch.float32, torch.float32, torch.int64, torch.float32, torch.bool)
    return SamplingShape(*(torch.full((rows,), value, dtype=kind) for value, kind in zip(values, kinds, strict=True)))


def even_numbers(rows):
    return (torch.arange(rows, dtype=torch.float64) + 0.5) / rows


def test_numbers_are_uniform_and_those_of_neighbours_are_unlike():
    seed, place = np.meshgrid(np.arange(400, dtype=np.uint64), np.arange(250), indexing="ij")
    number = uniform(seed.ravel(), place.ravel()).reshape(seed.shape)
    assert number.min() >= 0
    assert number.max() < 1
    counts = np.histogram(number, 50)[0]
    assert ((counts - 2000.0) ** 2 / 2000.0).sum() < 90
    for other in (number[1:] - number[:-1], number[:, 1:] - number[:, :-1]):
        assert abs(np.corrcoef(other.ravel()[:-1], other.ravel()[1:])[0, 1]) < 0.6
    assert abs(np.corrcoef(number[:-1].ravel(), number[1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(number[:, :-1].ravel(), number[:, 1:].ravel())[0, 1]) < 0.02


@pytest.mark.parametrize("vocabulary", [7, BLOCK, BLOCK + 1, 3 * BLOCK + 100])
def test_frequencies_are_the_probabilities(vocabulary):
    generator = torch.Generator().manual_seed(vocabulary)
    logits = 2 * torch.randn(vocabulary, generator=generator)
    rows = 4000
    drawn = draw(logits.repeat(rows, 1), even_numbers(rows), shape_of(rows, temperature=1.5))
    p = (logits / 1.5).softmax(-1)
    frequency = drawn.token.bincount(minlength=vocabulary) / rows
    # Even numbers leave no chance: a share is right to one part in `rows`.
    assert (frequency - p).abs().max() < 2 / rows
    torch.testing.assert_close(drawn.logprob, p.log()[drawn.token], atol=1e-5, rtol=0)
    assert not drawn.kept_logmass.any()


@pytest.mark.parametrize("vocabulary", [50, FIRST_LOOK + 500])
@pytest.mark.parametrize(
    "how",
    [dict(top_k=3), dict(top_p=0.7), dict(min_p=0.3), dict(top_k=20, top_p=0.5), dict(top_p=0.999), dict(min_p=1e-6)],
)
def test_truncation_is_that_of_transformers(vocabulary, how):
    from transformers import MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(1, vocabulary, generator=generator)
    rows = 3000
    drawn = draw(logits.repeat(rows, 1), even_numbers(rows), shape_of(rows, **how))
    warped = logits
    for name, warper in (("top_k", TopKLogitsWarper), ("top_p", TopPLogitsWarper), ("min_p", MinPLogitsWarper)):
        if name in how:
            warped = warper(how[name])(None, warped)
    p, kept = warped[0].softmax(-1), warped[0].isfinite()
    mass = logits[0].softmax(-1)[kept].sum()
    frequency = drawn.token.bincount(minlength=vocabulary) / rows
    assert (frequency - p).abs().max() < 2 / rows
    torch.testing.assert_close(drawn.logprob, p.log()[drawn.token], atol=2e-5, rtol=0)
    torch.testing.assert_close(drawn.kept_logmass, mass.log().expand(rows), atol=1e-5, rtol=0)


def test_a_greedy_row_takes_the_largest_and_says_what_it_kept():
    logits = torch.tensor([[0.0, 2.0, 1.0]])
    drawn = draw(logits.clone(), torch.tensor([0.99], dtype=torch.float64), shape_of(1, greedy=True))
    assert drawn.token.tolist() == [1]
    assert drawn.logprob.tolist() == [0.0]
    torch.testing.assert_close(drawn.kept_logmass, logits.log_softmax(-1)[:, 1])


def test_rows_of_all_kinds_draw_beside_each_other_as_alone():
    generator = torch.Generator().manual_seed(2)
    logits, number = torch.randn(6, 40, generator=generator), torch.rand(6, generator=generator, dtype=torch.float64)
    kinds = (dict(), dict(greedy=True), dict(top_p=0.5), dict(temperature=0.3), dict(top_k=4), dict(min_p=0.2))
    shapes = [shape_of(1, **kind) for kind in kinds]
    together = draw(logits.clone(), number, SamplingShape(*(torch.cat(x) for x in zip(*shapes, strict=True))))
    for row, shape in enumerate(shapes):
        alone = draw(logits[row : row + 1].clone(), number[row : row + 1], shape)
        assert [x[row].item() for x in together] == [x.item() for x in alone]


@pytest.mark.parametrize("number", [0.0, 1 - 2.0**-53])
@pytest.mark.parametrize("vocabulary", [9, 2 * BLOCK])
def test_an_id_without_mass_is_never_drawn(number, vocabulary):
    logits = torch.full((1, vocabulary), -200.0)
    logits[0, 3] = logits[0, 5] = 0.0
    for how in (dict(), dict(top_p=0.9999)):
        drawn = draw(logits.clone(), torch.tensor([number], dtype=torch.float64), shape_of(1, **how))
        assert drawn.token.item() == (3 if number == 0 else 5)
