"""Faults in advantages that users of other frameworks met, asked of every estimator that could have them."""

import pytest
import torch

from rlcore.batch import Batch
from rlcore.component import bind, name_of, reads
from rlcore.execute.local import StepResult
from rlcore.metrics import Metrics
from rlcore.run.step_report import step_metrics
from rlcore_algorithms.advantages import group_norm, leave_one_out, norm, whiten
from tests.algorithms.test_advantages import close, through_the_border
from tests.algorithms.test_advantages_family import RELATIVE, columns
from tests.shelf import shelf

NAN, INF = float("nan"), float("inf")
ESTIMATORS = [e for e in shelf("advantage").values() if "advantage" not in {read.name for read in reads(e)}]
EQUAL_PEERS = [bind(leave_one_out, scale_by_std=True), bind(norm, leave_one_out=True)]


def metrics_of(**given):
    """What a run reports of rows of two sampled tokens each."""
    rows = len(given["score"])
    on = torch.ones(rows, 2, dtype=torch.bool)
    given |= {"length": [2] * rows, "sampled": on, "mask": on, "stop": [0] * rows, "session": list(range(rows))}
    batch = Batch({name: torch.as_tensor(x) for name, x in given.items()})
    return step_metrics(StepResult(batch, Metrics(), {}, True), [], [], [])


def test_B01_groups_of_one_are_counted():
    found = metrics_of(score=[1.0, 0.0, 0.0, 1.0], group=[4, 9, 7, 7])
    assert found["groups/singleton"].value == 2


def test_B20_a_group_of_which_one_member_alone_could_be_scored_is_counted_as_a_group_of_one():
    found = metrics_of(score=[1.0, NAN, 0.0, 1.0], group=[4, 4, 7, 7])
    assert found["groups/singleton"].value == 1


@pytest.mark.parametrize("estimator", [group_norm, leave_one_out, norm], ids=name_of)
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 0, 2, 1], [0, 2, 1, 3]])
def test_B05_another_order_of_rows_is_another_order_of_advantages(estimator, order):
    reward, group = torch.tensor([1.0, 10, 3, 14]), torch.tensor([7, 2, 7, 2])
    assert torch.equal(estimator(reward[order], group[order]), estimator(reward, group)[order])


@pytest.mark.parametrize("value", [0.1, 0.35, 0.95])
@pytest.mark.parametrize("estimator", RELATIVE, ids=name_of)
def test_B07_no_estimator_over_groups_turns_rounding_of_equal_rewards_into_an_advantage(estimator, value):
    for n in range(2, 14):
        given = columns(n, 1, reward=[value] * n, score_components=[[value, value]] * n, token_reward=[[value]] * n)
        assert not through_the_border(estimator, [[1]] * n, **given)["advantage"].any(), n


@pytest.mark.parametrize("value", [0.1, 0.35, 0.7, 0.95])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("estimator", EQUAL_PEERS, ids=name_of)
def test_B08_a_residue_of_rounding_is_no_deviation_of_equal_peers(estimator, sign, value):
    # The one row stands below or above n - 1 equal ones: its peers do not deviate, whatever their mean rounds to.
    for n in range(3, 17):
        reward, group = sign * torch.tensor([0.0] + [value] * (n - 1)), torch.zeros(n, dtype=torch.int64)
        found = estimator(reward, group)
        close(found[0], -sign * value)
        # The others' peers are one 0 and n - 2 times the value: (v - v (n - 2) / (n - 1)) / (v / sqrt(n - 1)).
        close(found[1:], [sign * (n - 1) ** -0.5] * (n - 1), 1e-4)


@pytest.mark.parametrize("vote", ["token", "row"])
def test_B10_whitening_one_row_of_one_token_keeps_it_and_nothing_stays_nothing(vote):
    advantage = torch.tensor([[2.0, 0, 0], [NAN, INF, 5]])
    one = torch.tensor([[True, False, False], [False, False, False]])
    close(whiten(advantage, one, vote=vote), [[2.0, 0, 0], [0, 0, 0]], 0)
    close(whiten(advantage, torch.zeros_like(one), vote=vote), [[0.0] * 3] * 2, 0)


@pytest.mark.parametrize("garbage", [2.0, NAN, -INF])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_B13_what_stands_on_a_token_that_was_not_sampled_changes_no_advantage(estimator, garbage):
    rows = [[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1]]
    off = ~torch.tensor(rows, dtype=torch.bool)
    random = torch.Generator().manual_seed(0)
    tokens = {
        name: torch.randn(4, 3, generator=random).masked_fill(off, 0)
        for name in ("token_reward", "value", "process_reward", "old_logprob", "old_square_sum")
    }
    given = columns(
        4, 3, reward=[1.0, 0.0, 0.5, 2.0], score_components=[[1.0, 0], [0, 1], [0.5, 2], [2, 0]], group=[3, 3, 8, 8]
    )
    given |= {"greedy_reward": [0.4] * 4}
    clean = through_the_border(estimator, rows, **given | {name: x.tolist() for name, x in tokens.items()})
    spoiled = {name: x.masked_fill(off, garbage).tolist() for name, x in tokens.items()}
    found = through_the_border(estimator, rows, **given | spoiled)
    assert clean["advantage"].any()
    for name, expected in clean.items():
        assert torch.equal(found[name], expected), name
        assert not found[name][off].any()


def test_B22_the_greedy_answer_is_in_no_metric_of_the_score():
    found = metrics_of(score=[1.0, 1.0], group=[0, 1], greedy_reward=[0.4, 0.4], reward=[1.0, 1.0])
    assert found["score"].value == 1.0
    assert not any("greedy" in name for name in found.values())
