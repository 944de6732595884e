"""Dynamic sampling, and the controller of the KL coefficient, on numbers worked out by hand."""

import pytest
import torch

from rlcore.component import bind, invoke
from rlcore.errors import ConfigError
from rlcore.math import k2
from rlcore_algorithms.controllers import adaptive_kl
from rlcore_algorithms.filters import dynamic_sampling

NAN = float("nan")


def kept(score, group):
    return dynamic_sampling(torch.tensor(score), torch.tensor(group)).tolist()


def test_B91_a_group_with_one_wrong_answer_is_kept_whole():
    assert kept([0.0] + [0.95] * 7, [3] * 8) == list(range(8))


def test_B91_groups_whose_scores_are_all_equal_go():
    assert kept([0.35] * 7 + [0.0] * 3, [1] * 7 + [2] * 3) == []


def test_interleaved_groups_are_told_apart_and_keep_their_order():
    assert kept([1.0, 0.5, 0.0, 0.5], [7, 2, 7, 2]) == [0, 2]


def test_a_row_that_could_not_be_scored_has_no_vote_but_stays_with_its_group():
    assert kept([1.0, NAN, 1.0], [1, 1, 1]) == []
    assert kept([1.0, NAN, 0.0], [1, 1, 1]) == [0, 1, 2]
    assert kept([1.0, NAN, NAN, NAN], [1, 1, 2, 2]) == []


def test_a_group_of_one_goes():
    assert kept([1.0], [4]) == []


def adapted(coefficient, old, ref, mask, **options):
    """The next coefficient, from log-probabilities before the update and of the reference model."""
    columns = {"kl_coefficient": coefficient, "logprob": old, "ref_logprob": ref, "mask": mask}
    return invoke(bind(adaptive_kl, **options), columns).kl_coefficient


def test_B89_the_coefficient_follows_the_kl_and_goes_on_from_where_it_was():
    ref, mask = torch.zeros(64, 1), torch.ones(64, 1, dtype=torch.bool)

    def after(coefficient, kl):
        return adapted(coefficient, torch.full((64, 1), kl), ref, mask, target=0.1, horizon=1000)

    first = after(0.2, 0.3)
    assert first == pytest.approx(0.20256)
    # The coefficient is a column: what the first step left is all that a restarted run needs.
    assert after(first, 0.05) == pytest.approx(0.199967, abs=1e-6)


def test_a_row_without_a_trained_token_has_no_vote_on_the_coefficient():
    old, ref = torch.tensor([[0.5, 0.3], [9.0, 9.0]]), torch.zeros(2, 2)
    mask = torch.tensor([[True, True], [False, False]])
    # Mean KL 0.4, so the error is 0.4 / 0.4 - 1 = 0.
    assert adapted(0.2, old, ref, mask, target=0.4, horizon=10) == pytest.approx(0.2)
    # k2: (0.125 + 0.045) / 2 = 0.085, so the error is 0.0625 and the factor 1 + 0.0625 / 10.
    found = adapted(0.2, old, ref, mask, target=0.08, horizon=10, estimator=k2)
    assert found == pytest.approx(0.2 * 1.00625)
    assert adapted(0.2, old, ref, torch.zeros_like(mask), target=0.1) == pytest.approx(0.2)


@pytest.mark.parametrize("options", [{"target": 0.0}, {"horizon": 0}])
def test_a_target_or_horizon_that_is_not_above_0_is_refused(options):
    with pytest.raises(ConfigError, match="above 0"):
        adapted(0.2, torch.zeros(1, 1), torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool), **options)
