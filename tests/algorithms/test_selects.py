"""Selects on numbers worked out by hand, and through a real update."""

import pytest
import torch

from rlcore.component import bind
from rlcore.errors import ConfigError
from rlcore.protocols import Term, Update
from rlcore_algorithms import losses
from rlcore_algorithms.reductions import token_mean
from rlcore_algorithms.selects import clip_cov, current_rejection, current_weights, kl_cov, m2po, opsm, top_entropy
from tests.train import cases


def close(found, expected):
    torch.testing.assert_close(found, torch.tensor(expected, dtype=found.dtype), rtol=0, atol=1e-6)


ON = torch.ones(2, 2, dtype=torch.bool)
# Means 0 and -2: covariances 2, 0 / 2, 0.
ADVANTAGE, LOGPROB = torch.tensor([[1.0, 1.0], [-1.0, -1.0]]), torch.tensor([[0.0, -2.0], [-4.0, -2.0]])


def test_kl_cov_takes_at_least_one_token_and_no_masked_one():
    assert kl_cov(LOGPROB, ADVANTAGE, ON, share=0.5).selected.tolist() == [[True, False], [True, False]]
    assert kl_cov(LOGPROB, ADVANTAGE, ON, share=1e-4).selected.sum() == 1
    mask = ON.clone()
    mask[0, 0] = False
    # Without it the means are -1/3 and -8/3; the last row's first token leads.
    assert kl_cov(LOGPROB, ADVANTAGE, mask, share=1e-4).selected.tolist() == [[False, False], [True, False]]


def test_clip_cov_draws_with_its_seed_and_whatever_the_order_of_the_rows():
    torch.manual_seed(0)
    logprob, advantage, mask = torch.randn(40, 5), torch.randn(40, 5), torch.rand(40, 5) < 0.8
    select = bind(clip_cov, share=0.02, low=0.5, high=5.0)
    drawn = select(logprob, logprob, advantage, mask, 3).weight
    assert int((mask & (drawn == 0)).sum()) == int(0.02 * int(mask.sum()))
    order = torch.randperm(40)
    again = select(logprob[order], logprob[order], advantage[order], mask[order], 3).weight
    assert torch.equal(again, drawn[order])
    assert not torch.equal(select(logprob, logprob, advantage, mask, 4).weight, drawn)


def test_clip_cov_leaves_tokens_that_the_loss_clips_already():
    old = LOGPROB.clone()
    old[0, 0] = -1.0
    select = bind(clip_cov, share=1.0, low=1.0, high=5.0)
    close(select(LOGPROB, LOGPROB, ADVANTAGE, ON, 0).weight, [[0.0, 1.0], [0.0, 1.0]])
    close(select(LOGPROB, old, ADVANTAGE, ON, 0).weight, [[1.0, 1.0], [0.0, 1.0]])


def test_top_entropy_keeps_a_fifth_of_the_tokens_and_multiplies_the_weights_so_far():
    entropy = torch.arange(10.0).view(2, 5)
    mask = torch.ones(2, 5, dtype=torch.bool)
    kept = top_entropy(entropy, mask, torch.full((2, 5), 0.5)).weight
    close(kept, [[0.0] * 5, [0.0, 0.0, 0.0, 0.5, 0.5]])
    assert top_entropy(entropy, mask, share=1.0).weight.all()
    assert top_entropy(torch.ones(2, 5), mask).weight.all()


def test_m2po_drops_the_fewest_and_largest_log_ratios():
    logprob = torch.tensor([[0.1, -0.1, 0.5, -1.0]])
    mask, old = torch.ones(1, 4, dtype=torch.bool), torch.zeros(1, 4)
    # Means of squares: 0.01, 0.01, 0.09, 0.3175.
    close(m2po(logprob, old, mask, threshold=0.04).weight, [[1.0, 1.0, 0.0, 0.0]])
    close(m2po(logprob, old, mask, threshold=0.1).weight, [[1.0, 1.0, 1.0, 0.0]])
    close(m2po(logprob, old, mask, threshold=1e-6).weight.sum(), 1.0)


def test_opsm_drops_bad_answers_that_have_drifted_and_no_good_one():
    logprob, rollout = torch.tensor([[-2.0, -2.0]]).repeat(3, 1), torch.tensor([[-1.0], [-1.9], [-1.0]]).repeat(1, 2)
    advantage = torch.tensor([[-1.0], [-1.0], [1.0]]).repeat(1, 2)
    mask = torch.ones(3, 2, dtype=torch.bool)
    close(opsm(logprob, rollout, torch.zeros(3, 2), advantage, mask).weight, [[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    close(opsm(logprob, rollout, torch.full((3, 2), -1.0), advantage, mask).weight.sum(), 6.0)


def test_corrections_at_the_weights_of_the_moment():
    logprob, rollout = torch.tensor([[-1.0, -1.0]]), torch.tensor([[-2.0, -1.0]])
    mask, zero = torch.ones(1, 2, dtype=torch.bool), torch.zeros(1, 2)
    close(current_weights(logprob, rollout, zero, mask).weight, [[2.0, 1.0]])
    close(current_weights(logprob, rollout, zero, mask, outside="zero", high=2.0).weight, [[0.0, 1.0]])
    assert current_rejection(logprob, rollout, zero, mask, level="token", low=0.5, high=2.0).mask.tolist() == [
        [False, True]
    ]


def test_a_loss_reads_the_column_that_a_select_of_its_update_writes():
    rows = cases.batch()
    update = Update((Term(losses.kl_cov, token_mean),), (bind(kl_cov, share=0.25),))
    metrics = cases.trainer().update(rows, update, seed=0).metrics.values()
    tokens = int(rows["mask"].sum())
    assert metrics["selected_share"] == pytest.approx(int(0.25 * tokens) / tokens)


def test_a_token_that_clip_cov_draws_has_no_gradient_and_stays_in_the_denominator():
    rows = cases.batch()
    term = Term(losses.policy_gradient, token_mean)
    weighed = cases.trainer()
    select = bind(clip_cov, share=1.0, low=-1e9, high=1e9, clip_low=1.0, clip_high=1e9)
    result = weighed.update(rows, Update((term,), (select,)), seed=0)
    assert result.metrics.values()["gradient_norm"] == 0
    assert result.metrics.values()["updates/applied"] == 1


def test_what_selects_report_stands_under_their_names_over_the_tokens_that_each_saw():
    rows = cases.batch()
    tokens = int(rows["mask"].sum())
    draws = bind(clip_cov, share=0.25, low=-1e9, high=1e9, clip_low=1.0, clip_high=1e9)
    halves = bind(top_entropy, share=0.5)
    update = Update((Term(losses.policy_gradient, token_mean),), (draws, halves, draws), minibatches=2)
    found = cases.trainer().update(rows, update, seed=0).metrics.values()
    assert 0 < found["clip_cov_1/dropped_share"] <= 0.25
    assert found["clip_cov_1/candidate_share"] == 1
    assert found["clip_cov_2/dropped_share"] == found["clip_cov_1/dropped_share"]
    assert found["top_entropy/kept_share"] == pytest.approx(0.5, abs=1 / tokens * 2)
    assert found["top_entropy/threshold"] > 0


def test_rejection_at_the_weights_of_the_moment_reports_what_it_rejected():
    logprob, rollout = torch.tensor([[-1.0, -1.0]]), torch.tensor([[-2.0, -1.0]])
    mask, zero = torch.ones(1, 2, dtype=torch.bool), torch.zeros(1, 2)
    metrics = current_rejection(logprob, rollout, zero, mask, level="token", low=0.5, high=2.0).metrics
    assert metrics["rejected_share"].tolist() == [[1.0, 0.0]]


def test_opsm_and_m2po_report_what_they_measured():
    mask, zero = torch.ones(2, 1, dtype=torch.bool), torch.zeros(2, 1)
    found = opsm(-torch.tensor([[2.0], [1.0]]), -torch.ones(2, 1), zero, -torch.ones(2, 1), mask).metrics
    close(found["drift"], [1.0, 0.0])
    close(found["dropped_share"], [[1.0], [0.0]])
    found = m2po(torch.tensor([[2.0], [0.1]]), zero, mask).metrics
    close(found["second_moment"], [[4.0], [0.01]])
    close(found["dropped_share"], [[1.0], [0.0]])


@pytest.mark.parametrize(
    ("select", "options"),
    [
        (kl_cov, {"share": 0.0}),
        (top_entropy, {"share": 1.5}),
        (m2po, {"threshold": 0.0}),
        (opsm, {"threshold": -1.0}),
        (clip_cov, {"share": 0.0}),
        (clip_cov, {"low": 5.0, "high": 1.0}),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(select, options):
    from rlcore.component import invoke
    from rlcore.testing.laws.inputs import loss_columns

    with pytest.raises(ConfigError, match=next(iter(options))):
        invoke(bind(select, **options), loss_columns())
