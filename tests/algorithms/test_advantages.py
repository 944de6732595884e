"""Estimators on numbers worked out by hand, and the faults that users of other frameworks met with them."""

import pytest
import torch

from rlcore.batch import Batch
from rlcore.errors import ConfigError
from rlcore.execute.adapters import call_on_sessions
from rlcore.graph import Node
from rlcore.math import place_on_last_token, subtract_kl
from rlcore_algorithms.advantages import gae, group_norm, leave_one_out, reward_to_go, whiten

NAN = float("nan")
ROOT_HALF = 0.5**0.5


def close(found, expected, tolerance=1e-6):
    torch.testing.assert_close(found, torch.tensor(expected, dtype=found.dtype), rtol=0, atol=tolerance)


def through_the_border(estimator, sampled, **columns):
    """What a run makes of an estimator: sessions in, sampled tokens only, the result laid back as [B, T]."""
    sampled = torch.tensor(sampled, dtype=torch.bool)
    rows, width = sampled.shape
    columns = {name: torch.tensor(x) for name, x in columns.items()}
    columns = {"session": torch.arange(rows), "segment": torch.zeros(rows, dtype=torch.int64), **columns}
    batch = Batch({"length": torch.full((rows,), width), "sampled": sampled, "mask": sampled, **columns})
    node = Node(estimator, name="advantage", kind="advantage")
    written = call_on_sessions(node, estimator, batch, tuple(read.name for read in node.reads), {})
    return {name: batch.assign({name: x})[name] for name, x in written.items()}


@pytest.mark.parametrize("estimator", [group_norm, leave_one_out])
def test_B01_a_group_of_one_has_advantage_0_and_not_its_raw_reward(estimator):
    close(estimator(torch.tensor([1.0, 0.0]), torch.tensor([4, 9])), [0.0, 0.0], 0)


def test_B04_one_group_id_is_one_group_whatever_the_prompts_look_like():
    reward, group = torch.tensor([0.0, 1.0]), torch.tensor([3, 3])
    close(group_norm(reward, group, scale_by_std=False), [-0.5, 0.5])
    close(group_norm(reward, group, epsilon=0.0), [-ROOT_HALF, ROOT_HALF])


def test_B05_interleaved_groups_are_told_apart_by_their_ids():
    reward, group = torch.tensor([1.0, 10, 3, 14]), torch.tensor([7, 2, 7, 2])
    close(group_norm(reward, group, scale_by_std=False), [-1.0, -2, 1, 2])
    close(group_norm(reward, group, epsilon=0.0), [-ROOT_HALF, -ROOT_HALF, ROOT_HALF, ROOT_HALF])


@pytest.mark.parametrize("value", [0.35, 0.95, 0.3, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [3, 7])
def test_B07_equal_rewards_that_no_float_holds_exactly_give_exactly_0(value, dtype, n):
    reward, group = torch.full((n,), value, dtype=dtype), torch.zeros(n, dtype=torch.int64)
    for estimator in (group_norm, leave_one_out):
        assert not estimator(reward, group).any()


def test_B08_a_row_whose_peers_are_all_equal_keeps_its_difference_undivided():
    group = torch.zeros(4, dtype=torch.int64)
    reward = torch.tensor([1.0, 0, 0, 0])
    close(leave_one_out(reward, group), [1, -1 / 3, -1 / 3, -1 / 3])
    # Peers of the others are 1, 0, 0: mean 1/3, variance (4/9 + 1/9 + 1/9) / 2 = 1/3, so -1/3 / sqrt(1/3).
    close(leave_one_out(reward, group, scale_by_std=True, epsilon=0.0), [1, -0.577350, -0.577350, -0.577350])
    reward, group = torch.tensor([0.0] + [0.35] * 7), torch.zeros(8, dtype=torch.int64)
    close(leave_one_out(reward, group, scale_by_std=True, epsilon=0.0), [-0.35] + [0.377964] * 7)


def test_B10_whitening_needs_two_tokens():
    close(whiten(torch.tensor([[2.0, 0, 0]]), torch.tensor([[True, False, False]])), [[2.0, 0, 0]], 0)
    close(whiten(torch.tensor([[2.0, 5, NAN]]), torch.zeros(1, 3, dtype=torch.bool)), [[0.0, 0, 0]], 0)


def test_whitening_of_equal_advantages_gives_0():
    close(whiten(torch.full((2, 3), 0.35), torch.ones(2, 3, dtype=torch.bool)), [[0.0] * 3] * 2, 0)


def test_whitening_by_hand():
    # 1, 3, 5, 7, 9: mean 5, variance 40 / 4 = 10.
    advantage = torch.tensor([[1.0, 3, 99], [5, 7, 9]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    close(whiten(advantage, mask, epsilon=0.0), [[-1.264911, -0.632456, 0], [0, 0.632456, 1.264911]])
    close(whiten(advantage, mask, epsilon=0.0, shift_mean=False), [[3.735089, 4.367544, 0], [5, 5.632456, 6.264911]])


def test_B13_a_reward_on_a_token_that_was_not_sampled_cannot_be_placed():
    # A score of 2 for the row (1, 0): the last sampled token gets it, and both forms of the reward agree.
    placed = place_on_last_token(torch.tensor([2.0, 0.0]), torch.tensor([[True, False], [True, True]]))
    close(placed.token_reward, [[2.0, 0], [0, 0]], 0)
    close(placed.reward, [2.0, 0], 0)


@pytest.mark.parametrize("estimator", [gae, reward_to_go])
def test_B13_what_stands_off_the_sampled_tokens_has_no_say(estimator):
    columns = {"sampled": [[1, 0], [1, 1]], "score": [0.0, 0.0], "value": [[0.0, NAN], [0, 0]]}
    clean = through_the_border(estimator, token_reward=[[0.0, 0], [0, 0]], **columns)
    dirty = through_the_border(estimator, token_reward=[[0.0, 2], [0, 0]], **columns)
    assert torch.equal(dirty["advantage"], clean["advantage"])
    assert not dirty["advantage"].any()


@pytest.mark.parametrize("estimator", [group_norm, leave_one_out])
def test_B14_an_empty_response_is_given_nothing_and_has_no_vote(estimator):
    sampled = [[0, 0, 0], [1, 1, 0]]
    placed = place_on_last_token(torch.tensor([10.0, 1.0]), torch.tensor(sampled, dtype=torch.bool))
    close(placed.token_reward, [[0.0, 0, 0], [0, 1, 0]], 0)
    close(placed.reward, [0.0, 1], 0)
    found = through_the_border(estimator, sampled, reward=[10.0, 1.0], score=[10.0, 1.0], group=[5, 5])
    close(found["advantage"], [[0.0] * 3] * 2, 0)


@pytest.mark.parametrize("masked", [9.0, NAN, 1e6])
def test_B16_values_of_observations_stay_out_of_gae(masked):
    found = through_the_border(
        lambda token_reward, value, length: gae(token_reward, value, length, lam=0.95)._asdict()["advantage"],
        [[1, 0, 0, 1]],
        token_reward=[[0.0, 0, 0, 1]],
        value=[[0.5, masked, masked, 0.25]],
        score=[1.0],
    )
    close(found["advantage"], [[0.4625, 0, 0, 0.75]])
    found = through_the_border(
        gae, [[1, 0, 0, 1]], token_reward=[[0.0, 0, 0, 1]], value=[[0.5, masked, masked, 0.25]], score=[1.0]
    )
    close(found["returns"], [[1.0, 0, 0, 1.0]])


def test_B16_the_returns_are_advantage_plus_value():
    found = gae(torch.tensor([[0.0, 1]]), torch.tensor([[0.5, 0.25]]), torch.tensor([2]), lam=0.95)
    close(found.advantage, [[0.4625, 0.75]])
    close(found.returns, [[0.9625, 1.0]])


def test_B17_a_score_goes_to_the_last_sampled_token_and_not_to_an_observation():
    sampled = torch.tensor([[True, True, False, False]])
    placed = place_on_last_token(torch.tensor([1.0]), sampled)
    close(placed.token_reward, [[0.0, 1, 0, 0]], 0)
    columns = {"token_reward": placed.token_reward.tolist(), "score": [1.0], "value": [[0.3, 0.4, 7, 7]]}
    discounted = through_the_border(
        lambda token_reward, value, length: gae(token_reward, value, length, gamma=0.9, lam=0.8).advantage,
        sampled.tolist(),
        **columns,
    )
    close(discounted["advantage"], [[0.492, 0.6, 0, 0]])
    blind = through_the_border(
        lambda token_reward, value, length: gae(token_reward, value, length, gamma=0.0).returns,
        sampled.tolist(),
        **columns,
    )
    close(blind["advantage"], [[0.0, 1, 0, 0]])


def test_B19_kl_of_tool_tokens_costs_nothing():
    sampled = torch.tensor([[True, False, False, True]])
    kl = torch.tensor([[0.1, 5, 5, 0.2]])
    penalized = subtract_kl(torch.tensor([1.0]), torch.tensor([[0.0, 0, 0, 1]]), sampled, kl, 0.1)
    close(penalized.reward, [0.97])
    columns = {"token_reward": penalized.token_reward.tolist(), "score": [1.0]}
    close(through_the_border(reward_to_go, sampled.tolist(), **columns)["advantage"], [[0.97, 0, 0, 0.98]])


def test_B20_leave_one_out_compares_scorable_samples_only():
    close(leave_one_out(torch.tensor([1.0]), torch.tensor([0])), [0.0], 0)
    close(leave_one_out(torch.tensor([1.0, 0, 0]), torch.zeros(3, dtype=torch.int64)), [1, -0.5, -0.5])
    found = through_the_border(leave_one_out, [[1]] * 4, reward=[1.0, 0, 0, 0], score=[1.0, NAN, 0, 0], group=[1] * 4)
    close(found["advantage"], [[1.0], [0], [-0.5], [-0.5]])


def test_B20_an_algorithm_that_compares_samples_is_refused_with_one_sample():
    from rlcore_algorithms import rloo

    with pytest.raises(ConfigError, match="group_size must be at least 2"):
        rloo(group_size=1)


def test_a_session_of_two_rows_votes_once():
    # Two rows of one session (1 in all) and one row of another (0): centred 0.5 and -0.5.
    found = through_the_border(
        lambda reward, group: group_norm(reward, group, scale_by_std=False),
        [[1, 1], [0, 1], [1, 0]],
        reward=[0.0, 1.0, 0.0],
        score=[1.0, 1.0, 0.0],
        group=[1, 1, 1],
        session=[4, 4, 6],
        segment=[0, 1, 0],
    )
    close(found["advantage"], [[0.5, 0.5], [0, 0.5], [-0.5, 0]])


def test_group_norm_by_hand():
    # 0, 1, 5: mean 2, variance (4 + 1 + 9) / 2 = 7.
    close(
        group_norm(torch.tensor([0.0, 1, 5]), torch.zeros(3, dtype=torch.int64), epsilon=0.0),
        [-0.755929, -0.377964, 1.133893],
    )
    close(group_norm(torch.tensor([0.0, 2]), torch.zeros(2, dtype=torch.int64), epsilon=1.0), [-0.414214, 0.414214])


def test_group_norm_keeps_a_small_spread_on_a_large_mean():
    reward = torch.tensor([1000.0, 1000.0625, 1000.125])
    close(group_norm(reward, torch.zeros(3, dtype=torch.int64), epsilon=0.0), [-1.0, 0, 1])


def test_reward_to_go_by_hand():
    reward = torch.tensor([[1.0, 2, 4], [8, 77, 77]])
    close(reward_to_go(reward, torch.tensor([3, 1]), gamma=0.5), [[3.0, 4, 4], [8, 0, 0]])


def test_gae_bootstraps_from_the_value_after_the_last_token_of_a_cut_off_row():
    # delta = 0 + 0.5 x 8 - 1 = 3; before it 0 + 0.5 x 1 - 2 = -1.5, plus 0.5 x 3.
    found = gae(
        torch.zeros(1, 3), torch.tensor([[2.0, 1, 99]]), torch.tensor([2]), torch.tensor([8.0]), gamma=0.5, lam=1.0
    )
    close(found.advantage, [[0.0, 3, 0]])


def test_gae_with_lambda_1_is_the_return_minus_the_value_and_with_lambda_0_the_one_step_error():
    reward, value, length = torch.tensor([[0.0, 0, 1]]), torch.tensor([[0.2, 0.5, 0.9]]), torch.tensor([3])
    close(gae(reward, value, length).advantage, [[0.8, 0.5, 0.1]])
    close(gae(reward, value, length, lam=0.0).advantage, [[0.3, 0.4, 0.1]])
