"""More estimators on numbers worked out by hand, and the faults that users of other frameworks met with them."""

import pytest
import torch

import rlcore_algorithms
from rlcore.component import bind, name_of, reads
from rlcore.errors import ConfigError
from rlcore_algorithms.advantages import (
    best_margin,
    clip,
    components_norm,
    gae,
    greedy_baseline,
    group_norm,
    leave_one_out,
    length_weighted_baseline,
    mean_ratio,
    norm,
    per_active_row,
    reward_to_go,
    scale,
    token_baseline,
    weighted_sum,
    whiten,
)
from tests.algorithms.test_advantages import close, through_the_border
from tests.shelf import shelf

NAN = float("nan")
ONE = torch.zeros(4, dtype=torch.int64)
OUTCOME = [e for e in shelf("advantage").values() if {"reward", "group"} <= {read.name for read in reads(e)}]
RELATIVE = [e for e in shelf("advantage").values() if "group" in {read.name for read in reads(e)}]


def columns(rows, width, **given):
    """What any estimator of the shelf may read, with values of no interest where none are given."""
    zero = [[0.0] * width] * rows
    return {
        "score": [0.0] * rows,
        "reward": [0.0] * rows,
        "score_components": [[0.0, 0.0]] * rows,
        "group": [3] * rows,
        "token_reward": zero,
        "process_reward": zero,
        "old_logprob": [[-0.5] * width] * rows,
        "old_square_sum": [[0.5] * width] * rows,
        **given,
    }


@pytest.mark.parametrize("estimator", RELATIVE, ids=name_of)
def test_B01_no_group_of_one_has_an_advantage(estimator):
    given = columns(
        2,
        2,
        reward=[1.0, 0.0],
        score_components=[[1.0, 0.5], [0.0, 2.0]],
        token_reward=[[0.0, 1], [0, 0]],
        group=[4, 9],
    )
    assert not through_the_border(estimator, [[1, 1], [1, 1]], **given)["advantage"].any()


@pytest.mark.parametrize("estimator", RELATIVE, ids=name_of)
def test_B13_what_stands_on_a_token_that_was_not_sampled_is_nobodys_reward(estimator):
    # The score of such a row is placed on its last sampled token or nowhere, so `reward` is 0 like `token_reward`.
    given = columns(2, 2, token_reward=[[0.0, 2], [0, 0]])
    assert not through_the_border(estimator, [[1, 0], [1, 1]], **given)["advantage"].any()


@pytest.mark.parametrize("estimator", RELATIVE, ids=name_of)
def test_B14_an_empty_response_has_no_vote(estimator):
    given = columns(2, 3, reward=[10.0, 1.0], score_components=[[10.0, 0], [1, 0]], token_reward=[[0.0] * 3, [0, 1, 0]])
    assert not through_the_border(estimator, [[0, 0, 0], [1, 1, 0]], **given)["advantage"].any()


@pytest.mark.parametrize("estimator", OUTCOME, ids=name_of)
def test_B20_a_row_that_could_not_be_scored_has_no_vote(estimator):
    given = columns(4, 1, reward=[1.0, 7.0, 0.0, 0.0], score=[1.0, NAN, 0.0, 0.0])
    found = through_the_border(estimator, [[1]] * 4, **given)["advantage"]
    kept = columns(3, 1, reward=[1.0, 0.0, 0.0], score=[1.0, 0.0, 0.0])
    assert torch.equal(found[[0, 2, 3]], through_the_border(estimator, [[1]] * 3, **kept)["advantage"])
    assert found[1] == 0


def test_a_single_sample_keeps_its_reward_if_a_preset_says_so():
    reward, group = torch.tensor([1.0, 2, 4]), torch.tensor([7, 5, 5])
    close(group_norm(reward, group, keep_single=True, scale_by_std=False), [1.0, -1, 1])
    close(leave_one_out(reward, group, keep_single=True), [1.0, -2, 2])
    length = torch.tensor([3, 1, 3])
    # Baseline of the second group: (1 x 2 + 3 x 4) / 4 = 3.5.
    close(length_weighted_baseline(reward, group, length, keep_single=True), [1.0, -1.5, 0.5])
    assert norm(reward, group, center="none", scale="none").tolist() == reward.tolist()


def test_group_mean_with_the_deviation_of_the_batch():
    # 0, 1, 2, 5: mean 2, variance (4 + 1 + 0 + 9) / 3 = 14 / 3.
    found = norm(torch.tensor([0.0, 1, 2, 5]), torch.tensor([1, 1, 2, 2]), scale="batch", epsilon=0.0)
    close(found, [-0.231455, 0.231455, -0.694365, 0.694365])


def test_batch_mean_and_batch_deviation_need_no_groups():
    found = norm(torch.tensor([1.0, 3, 5]), torch.tensor([1, 2, 3]), center="batch", scale="batch", epsilon=0.0)
    close(found, [-1.0, 0, 1])


def test_only_the_best_of_a_group_has_a_margin():
    close(best_margin(torch.tensor([1.0, 4, 2, -1]), ONE), [0.0, 2, 0, 0])
    close(best_margin(torch.tensor([4.0, 4, 2, -1]), ONE), [0.0, 0, 0, 0], 0)
    # Mean 1.5, variance (0.25 + 6.25 + 0.25 + 6.25) / 3 = 13 / 3.
    close(best_margin(torch.tensor([1.0, 4, 2, -1]), ONE, scale_by_std=True, epsilon=0.0), [0, 0.960769, 0, 0])


def test_the_length_weighted_baseline_by_hand():
    # (1 x 1 + 3 x 0) / 4 = 0.25.
    found = length_weighted_baseline(torch.tensor([1.0, 0]), ONE[:2], torch.tensor([1, 3]))
    close(found, [0.75, -0.25])


def test_rarely_solved_prompts_count_more_by_their_mean():
    close(mean_ratio(torch.tensor([1.0, 0, 0, 0]), ONE, epsilon=0.0), [3.0, -1, -1, -1])
    close(mean_ratio(torch.tensor([1.0, 1, 1, 0]), ONE, epsilon=0.0), [1 / 3, 1 / 3, 1 / 3, -1])
    assert not mean_ratio(torch.zeros(4), ONE).any()


def test_a_mean_below_0_does_not_turn_the_better_answer_into_the_worse():
    close(mean_ratio(torch.tensor([-1.0, -3]), ONE[:2]), [1.0, -1])


def test_B22_the_greedy_answer_is_the_baseline_and_one_sample_is_enough():
    found = through_the_border(
        greedy_baseline, [[1, 1, 0]], token_reward=[[0.0, 1, 0]], greedy_reward=[0.4], score=[1.0]
    )
    close(found["advantage"], [[0.6, 0.6, 0]])


def test_B22_a_batch_without_a_greedy_reward_is_refused_by_name():
    from rlcore.errors import GraphError

    with pytest.raises(GraphError, match="greedy_reward"):
        through_the_border(greedy_baseline, [[1, 1]], token_reward=[[0.0, 1]], score=[1.0])


def test_each_part_of_a_score_is_normalised_before_the_weighted_sum():
    # Each part is 1, 0, 0, 0 in some order: mean 1/4, deviation 1/2.
    scores = torch.tensor([[1.0, 0], [0, 1], [0, 0], [0, 0]])
    close(components_norm(scores, ONE, epsilon=0.0), [1.0, 1, -1, -1])
    close(components_norm(scores, ONE, epsilon=0.0, weights=(1.0, 0.5)), [1.25, 0.25, -0.75, -0.75])
    close(components_norm(scores, ONE, weights=(2.0, 0.0), scale_by_std=False), [1.5, -0.5, -0.5, -0.5])


def test_another_number_of_weights_than_parts_is_refused():
    with pytest.raises(ConfigError, match="3 weights .* for 2 score components"):
        components_norm(torch.zeros(4, 2), ONE, weights=(1.0, 1.0, 1.0))


def test_rows_without_an_advantage_do_not_dilute_the_batch():
    advantage = torch.tensor([[0.5, 0.5], [-0.5, 7.0], [0, 0], [0, 7.0]])
    length, reward = torch.tensor([2, 1, 2, 1]), torch.tensor([1.0, 0, 1, 1])
    close(per_active_row(advantage, reward, length), [[1.0, 1], [-1, 0], [0, 0], [0, 0]])
    close(per_active_row(advantage, reward, length, active="reward")[0], [2 / 3, 2 / 3])
    assert not per_active_row(torch.zeros(4, 2), torch.zeros(4), length).any()


def test_whitening_by_rows_gives_a_long_row_one_vote():
    advantage = torch.tensor([[2.0, 2, 2, 2], [4, 0, 0, 0], [9, 0, 0, 0]])
    mask = torch.tensor([[True] * 4, [True, False, False, False], [True, False, False, False]])
    # Mean 5, variance (9 + 1 + 16) / 2 = 13.
    found = whiten(advantage, mask, vote="row", epsilon=0.0)
    close(found, [[-0.832050] * 4, [-0.277350, 0, 0, 0], [1.109400, 0, 0, 0]])
    close(whiten(advantage[:1], mask[:1], vote="row"), [[2.0] * 4], 0)


def test_clip_and_scale_by_hand():
    advantage, length = torch.tensor([[3.0, -3, 7]]), torch.tensor([2])
    close(clip(advantage, length, low=-1.0, high=2.0), [[2.0, -1, 0]])
    close(clip(advantage, length, low=0.0), [[3.0, 0, 0]])
    close(clip(advantage, length), [[3.0, -3, 0]])
    close(scale(advantage, length, factor=-0.5), [[-1.5, 1.5, 0]])
    with pytest.raises(ConfigError, match="low=1.0 is above high=0.0"):
        clip(advantage, length, low=1.0, high=0.0)


# -- the token baseline


def energies(rows, width, energy=1.0):
    """Log-probabilities and square sums of a token that spends `energy`: probability 1/2 gives 1 - 1 + square sum."""
    return torch.full((rows, width), 0.5).log(), torch.full((rows, width), energy)


def test_the_token_baseline_weights_returns_by_spent_energy():
    logprob, square = energies(2, 2)
    square[1] = 3.0
    reward = torch.tensor([[0.0, 1], [0, 0]])
    every = torch.ones(2, 2, dtype=torch.bool)
    # W is 1, 2 and 3, 6: the baseline is (1 x 1 + 0 x 3) / 4 at both tokens.
    found = token_baseline(reward, logprob, square, ONE[:2], torch.tensor([2, 2]), every)
    close(found, [[0.75, 0.75], [-0.25, -0.25]])
    # Weights of 2 on the first row make W 4 and 8: baselines 4/7 and 8/14.
    weight = torch.tensor([[2.0, 2], [1, 1]])
    found = token_baseline(reward, logprob, square, ONE[:2], torch.tensor([2, 2]), every, weight)
    close(found, [[3 / 7, 3 / 7], [-4 / 7, -4 / 7]])


def test_the_tail_of_the_longest_row_has_nobody_to_be_compared_with():
    logprob, square = energies(2, 3)
    reward, length = torch.tensor([[0.0, 0, 1], [0, 0, 0]]), torch.tensor([3, 1])
    mask = torch.arange(3) < length[:, None]
    found = token_baseline(reward, logprob, square, ONE[:2], length, mask)
    close(found, [[0.5, 1, 1], [-0.5, 0, 0]])
    found = token_baseline(reward, logprob, square, ONE[:2], length, mask, zero_tail=False)
    close(found, [[0.5, 0, 0], [-0.5, 0, 0]])
    # Two longest rows are each other's company.
    found = token_baseline(reward[[0, 0]], logprob, square, ONE[:2], length[[0, 0]], mask[[0, 0]])
    assert not found.any()


def test_the_tail_may_be_counted_in_trained_tokens():
    logprob, square = energies(2, 3)
    reward, length = torch.tensor([[0.0, 0, 1], [0, 0, 0]]), torch.tensor([3, 3])
    mask = torch.tensor([[True, True, True], [True, False, False]])
    given = (reward, logprob, square, ONE[:2], length, mask)
    # Alone from the second token on, where the other row goes on without being trained on.
    close(token_baseline(*given), [[0.5, 0, 0], [-0.5, 0, 0]])
    close(token_baseline(*given, tail_from="mask"), [[0.5, 1, 1], [-0.5, 0, 0]])


def test_a_token_that_is_not_trained_on_spends_no_energy():
    logprob, square = energies(2, 2)
    reward = torch.tensor([[0.0, 1], [0, 0]])
    mask = torch.tensor([[False, True], [True, True]])
    # At the second token W is 1 and 2.
    found = token_baseline(reward, logprob, square, ONE[:2], torch.tensor([2, 2]), mask)
    close(found, [[0.0, 2 / 3], [0, -1 / 3]])


def test_interrupted_answers_are_compared_token_by_token():
    given = columns(2, 3, token_reward=[[0.0, 0, 1], [0, 0, 0]], old_logprob=[[-0.5, NAN, -0.5], [-0.5, -0.5, NAN]])
    whole = through_the_border(token_baseline, [[1, 0, 1], [1, 1, 0]], **given)["advantage"]
    close(whole, [[0.5, 0, 0.5], [-0.5, -0.5, 0]])


def test_equal_answers_of_unequal_length_have_no_advantage_unless_a_preset_keeps_the_tail():
    logprob, square = energies(2, 3)
    length = torch.tensor([3, 1])
    real = torch.arange(3) < length[:, None]
    reward = torch.tensor([[0.0, 0, 0.35], [0.35, 0, 0]])
    assert not token_baseline(reward, logprob, square, ONE[:2], length, real).any()
    found = token_baseline(reward, logprob, square, ONE[:2], length, real, keep_single=True)
    close(found, [[0.0, 0.35, 0.35], [0, 0, 0]])


def test_whole_groups_are_worked_on_together_however_many_rows_there_are():
    random = torch.Generator().manual_seed(0)
    rows, width = 1300, 3
    group = torch.randint(0, 400, (rows,), generator=random)
    reward = torch.randn(rows, width, generator=random, dtype=torch.float64)
    logprob = -torch.rand(rows, width, generator=random, dtype=torch.float64)
    square, length = torch.ones_like(logprob), torch.randint(1, width + 1, (rows,), generator=random)
    mask = torch.arange(width) < length[:, None]
    whole = token_baseline(reward, logprob, square, group, length, mask)
    for name in (0, 17, 399):
        rows_of = (group == name).nonzero().squeeze(1)
        alone = token_baseline(
            reward[rows_of], logprob[rows_of], square[rows_of], group[rows_of], length[rows_of], mask[rows_of]
        )
        torch.testing.assert_close(whole[rows_of], alone)


# -- composition


def test_a_sum_reads_what_its_parts_read_and_arrives_with_them_bound():
    both = bind(weighted_sum, first=leave_one_out, second=gae, second_weight=0.5)
    assert {read.name for read in reads(both)} >= {"reward", "group", "token_reward", "value", "length"}
    found = through_the_border(
        both,
        [[1, 0, 1], [1, 1, 0]],
        **columns(2, 3, reward=[1.0, 0.0], token_reward=[[0.0, 0, 1], [0, 0, 0]], value=[[0.0, 0, 0.5], [0, 0, 0]]),
    )
    # Leave-one-out gives 1 and -1, gae 1 and 0.5 in the first row and 0 in the second.
    close(found["advantage"], [[1.5, 0, 1.25], [-1, -1, 0]])


def test_a_sum_of_row_estimators_is_one_number_per_row():
    reward, length, sampled = torch.tensor([1.0, 0]), torch.tensor([1, 1]), torch.ones(2, 1, dtype=torch.bool)
    first = lambda: leave_one_out(reward, ONE[:2])  # noqa: E731
    close(weighted_sum(length, sampled, first=first, second=first, second_weight=-0.5), [0.5, -0.5])
    close(weighted_sum(length, sampled, first=first, first_weight=2.0), [2.0, -2])


def test_what_nobody_reads_is_not_computed():
    from rlcore.algorithm import Algorithm
    from rlcore_algorithms.losses import policy_gradient
    from rlcore_algorithms.reductions import token_mean

    def roles(second):
        sum_ = bind(weighted_sum, first=leave_one_out, second=second)
        return Algorithm("sum", sum_, policy_gradient, token_mean).graph().resolve().roles

    assert roles(reward_to_go) == ("sampler", "trainer")
    assert roles(gae) == ("critic", "sampler", "trainer")
    assert "greedy_rollout" not in [n.name for n in rlcore_algorithms.gpg().graph().resolve().nodes]
