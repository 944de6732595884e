"""Small faults in the shelf: at least 95 % must be caught by the kit, the recorded cases or the plain versions."""

import random

import pytest

from tests.testing.killing import SHELF, killed_by
from tests.testing.mutation import mutants_of

LEAST = 0.95
# A change that changes nothing a caller can see is no fault; each with the reason.
EQUIVALENT = {
    ("clip_cov", "2 becomes 3: 2"): "the modulus of a seed",
    ("measured", ".detach() is dropped"): "no gradient reaches the numbers of the sampler",
    ("bypass", ".detach() is dropped"): "no gradient reaches the numbers of the sampler",
    ("_probabilities", ".detach() is dropped"): "they are only compared",
    ("dppo_kl", ".detach() is dropped"): "it is only compared",
    ("decoupled", ".detach() is dropped"): "no gradient reaches the numbers of the sampler",
    ("outcome_cross_entropy", ".detach() is dropped"): "it is only compared",
    ("normalized", ".detach() is dropped"): "weights never have a gradient",
    ("normalized", "1e-08 times 1.01"): "the floor keeps 0 from dividing; no mean of weights comes near it",
    ("weighted_sum", "2 becomes 3: 2"): "no result has three dimensions",
    ("gspo", "amax becomes amin: masked(ratio.detach()"): "the row's ratio stands at each of its tokens, for a metric",
}


def is_equivalent(mutant):
    return any(mutant.function.__name__ == name and mutant.change.startswith(what) for name, what in EQUIVALENT)


def every_mutant():
    return [mutant for function, _ in SHELF for mutant in mutants_of(function) if not is_equivalent(mutant)]


def drawn(count, seed):
    """Some mutants, as evenly over functions as can be."""
    of_function = {}
    for mutant in every_mutant():
        of_function.setdefault(mutant.function, []).append(mutant)
    order = random.Random(seed)
    queues = [order.sample(mutants, len(mutants)) for mutants in of_function.values()]
    order.shuffle(queues)
    flat = [queue[i] for i in range(max(map(len, queues))) for queue in queues if i < len(queue)]
    return flat[:count]


def survivors(mutants):
    return [mutant.name for mutant in mutants if killed_by(mutant) is None]


def test_the_shelf_as_it_is_is_caught_by_nothing():
    """Otherwise every mutant would be."""

    class Sound:
        function = SHELF[0][0]
        code = SHELF[0][0].__code__

    assert killed_by(Sound) is None


def test_of_a_sample_at_most_one_survives():
    left = survivors(drawn(10, seed=4))
    assert len(left) <= 1, "\n".join(left)


@pytest.mark.slow
def test_nearly_all_mutants_are_caught():
    mutants = every_mutant()
    left = survivors(mutants)
    assert len(mutants) >= 40
    assert len(left) <= (1 - LEAST) * len(mutants), "\n".join(left)


def test_a_mutant_is_gone_afterwards():
    function, _ = SHELF[0]
    whole = function.__code__
    mutant = next(mutants_of(function))
    killed_by(mutant)
    assert function.__code__ is whole
