import pytest
import torch

from rlcore.errors import ConfigError
from rlcore_algorithms.shaping import soft_overlong
from rlcore_rewards.lengths import length_penalty, overlong_penalty, repetition_penalty


def words(count):
    return " ".join(["word"] * count)


@pytest.mark.parametrize(
    ("length", "score"), [(10, 0), (15, 0), (16, 0), (17, -0.25), (18, -0.5), (19, -0.75), (20, -1), (21, -1)]
)
def test_b73_the_overlong_penalty_grows_over_the_buffer(length, score):
    assert overlong_penalty(words(length), max_length=20, buffer=4) == {"score": score, "length": length}
    assert overlong_penalty("x" * length, max_length=20, buffer=4, unit="characters")["score"] == score


def test_b73_without_a_buffer_only_what_is_too_long_pays():
    scores = [overlong_penalty(words(n), max_length=20, buffer=0)["score"] for n in (0, 19, 20, 21, 40)]
    assert scores == [0, 0, 0, -1, -1]


def test_the_ramp_is_that_of_the_shaping_node():
    for length in range(1, 26):
        for buffer in (0, 1, 4, 20):
            sampled = torch.ones(1, length, dtype=torch.bool)
            placed = soft_overlong(
                torch.zeros(1), torch.zeros(1, length), sampled, max_length=20, buffer=buffer, factor=0.5
            )
            said = overlong_penalty(words(length), max_length=20, buffer=buffer, factor=0.5)["score"]
            assert said == pytest.approx(placed.reward.item())


def test_the_length_penalty_is_even_and_bounded():
    scores = [length_penalty(words(n), max_length=10, factor=2.0)["score"] for n in (0, 1, 5, 10, 11)]
    assert scores == pytest.approx([0, -0.2, -1, -2, -2])


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        ("a b c d e", 0.0),
        ("a b", 0.0),
        ("", 0.0),
        ("a a a a", 0.5),
        ("a b c a b c", 0.25),
        ("A b c a B c", 0.25),
        ("go " * 102, 0.99),
    ],
)
def test_repetition_is_the_share_of_ngrams_that_stood_before(text, repeated):
    graded = repetition_penalty(text, ngram=3, factor=2.0)
    assert graded == pytest.approx({"score": -2 * repeated, "repeated": repeated})


@pytest.mark.parametrize(
    "call",
    [
        lambda: length_penalty("x", max_length=0),
        lambda: length_penalty("x", factor=-1.0),
        lambda: overlong_penalty("x", max_length=10, buffer=11),
        lambda: overlong_penalty("x", buffer=-1),
        lambda: repetition_penalty("x", ngram=0),
    ],
)
def test_options_out_of_range_are_errors_of_the_configuration(call):
    with pytest.raises(ConfigError, match="penalty"):
        call()
