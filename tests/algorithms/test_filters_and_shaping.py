"""Accuracy band, resampling, overlong and duplicate answers, mixtures of parts, on numbers worked out by hand."""

import pytest
import torch

from rlcore.batch import Batch
from rlcore.component import bind
from rlcore.errors import ConfigError
from rlcore.execute.adapters import call_on_rows
from rlcore.graph import Node
from rlcore_algorithms.filters import accuracy_band, score_resampling
from rlcore_algorithms.shaping import duplicate_mask, overlong_mask, soft_overlong, weighted_components

NAN = float("nan")


def on_rows(component, sampled, **columns):
    """What a run makes of a shaping node: whole rows in, results laid back."""
    sampled = torch.tensor(sampled, dtype=torch.bool)
    rows, width = sampled.shape
    columns = {name: torch.tensor(x) for name, x in columns.items()}
    columns = {"session": torch.arange(rows), "segment": torch.zeros(rows, dtype=torch.int64), **columns}
    batch = Batch({"length": torch.full((rows,), width), "sampled": sampled, "mask": sampled, **columns})
    node = Node(component, kind="shaping")
    taken = tuple(read.name for read in node.reads if read.name in batch)
    return call_on_rows(node, component, batch, taken, {})


# -- filters


def band(score, group, **options):
    return accuracy_band(torch.tensor(score), torch.tensor(group), **options).tolist()


def test_groups_within_the_band_are_kept_whole_and_in_order():
    assert band([1.0, 1, 0, 0, 1, 0], [7, 2, 7, 5, 2, 5]) == [0, 2]
    assert band([1.0, 1, 0, 0], [7, 2, 7, 2], least=0.5, most=0.5) == [0, 1, 2, 3]


def test_the_bounds_of_the_band_are_included_and_looked_at_without_unscored_rows():
    assert band([1.0, 0, 0, 0, 0], [1] * 5) == [0, 1, 2, 3, 4]
    assert band([1.0, NAN, NAN, NAN, NAN, NAN], [1] * 6, most=1.0) == [0, 1, 2, 3, 4, 5]
    assert band([NAN, NAN], [1, 1], least=-9.0, most=9.0) == []
    with pytest.raises(ConfigError, match="least=0.9 is above most=0.1"):
        band([1.0], [1], least=0.9, most=0.1)


def resampled(score, seed=3, **options):
    score = torch.tensor(score)
    return score_resampling(score, torch.arange(len(score)) * 5, seed, **options)


def test_rows_are_drawn_in_proportion_to_a_power_of_their_score():
    rows = resampled([1.0, -2.0, 0.0] * 2000)
    drawn = torch.bincount(rows % 3, minlength=3) / len(rows)
    # Weights 1, 4, 0.
    torch.testing.assert_close(drawn, torch.tensor([0.2, 0.8, 0.0]), rtol=0, atol=0.03)
    assert len(rows) == 6000


def test_extremes_and_best_or_random_weigh_as_they_say():
    score = [0.0, 0.5, 0.7, 1.0] * 2000
    rows = resampled(score, by="extremes")
    assert set((rows % 4).tolist()) == {0, 3}
    rows = resampled(score, by="best_or_random")
    drawn = torch.bincount(rows % 4, minlength=4) / len(rows)
    torch.testing.assert_close(drawn, torch.tensor([1, 1, 1, 4]) / 7, rtol=0, atol=0.03)


def test_rows_that_could_not_be_scored_are_never_drawn():
    assert set(resampled([NAN, 1.0, NAN]).tolist()) == {1}
    assert resampled([NAN, NAN]).tolist() == []


def test_a_draw_depends_on_the_seed_and_the_sessions_and_not_on_the_order_of_rows():
    score, session = torch.rand(50), torch.randperm(50)
    first = score_resampling(score, session, 3)
    assert torch.equal(first, score_resampling(score, session, 3))
    assert not torch.equal(first, score_resampling(score, session, 4))
    order = torch.randperm(50)
    again = score_resampling(score[order], session[order], 3)
    assert torch.equal(session[order][again], session[first])


def test_resampling_stands_in_a_graph_as_a_node_of_the_whole_batch():
    from rlcore_algorithms import ppo

    node = Node(score_resampling, name="resampling", kind="filter", per="batch")
    plan = ppo().graph().insert(node, before="update").resolve()
    assert "resampling" in {n.name for n in plan.learning_stage}


# -- overlong answers


def penalized(lengths, **options):
    width = max(lengths)
    sampled = [[int(t < n) for t in range(width)] for n in lengths]
    zero = [[0.0] * width for _ in lengths]
    return on_rows(
        bind(soft_overlong, **options),
        sampled,
        reward=[0.0] * len(lengths),
        token_reward=zero,
        score=[1.0] * len(lengths),
    )


def test_B73_the_penalty_grows_over_the_buffer_and_stops_at_the_bound():
    found = penalized([10, 15, 16, 17, 18, 19, 20, 21], max_length=20, buffer=4)["reward"]
    torch.testing.assert_close(found, torch.tensor([0, 0, 0, -0.25, -0.5, -0.75, -1, -1]))


def test_B73_a_buffer_of_0_divides_by_nothing():
    assert penalized([19, 20, 21], max_length=20, buffer=0)["reward"].tolist() == [0, 0, -1]
    assert penalized([21], max_length=20, buffer=4, factor=0.5)["reward"].tolist() == [-0.5]
    with pytest.raises(ConfigError, match="buffer=30 must be between 0 and max_length=20"):
        penalized([1], max_length=20, buffer=30)


def test_the_penalty_stands_on_the_last_sampled_token_of_the_session_and_is_paid_once():
    # A session of two rows with 2 + 2 sampled tokens and a row of its own with 1.
    found = on_rows(
        bind(soft_overlong, max_length=4, buffer=2),
        [[0, 1, 1], [1, 1, 0], [1, 0, 0]],
        reward=[0.0, 5.0, 1.0],
        token_reward=[[0.0, 0, 0], [0, 5, 0], [1, 0, 0]],
        score=[5.0, 5.0, 1.0],
        session=[8, 8, 9],
        segment=[0, 1, 0],
    )
    assert found["reward"].tolist() == [0, 4, 1]
    assert found["token_reward"].tolist() == [[0, 0, 0], [0, 4, 0], [1, 0, 0]]


def test_B47_only_answers_that_were_cut_off_are_masked_with_all_rows_of_their_session():
    # Stops: finished, length, aborted, and a session whose first row was cut.
    found = on_rows(
        overlong_mask,
        [[1, 1]] * 5,
        stop=[0, 1, 2, 1, 0],
        session=[0, 1, 2, 3, 3],
        segment=[0, 0, 0, 0, 1],
        score=[1.0] * 5,
    )
    assert found["mask"].tolist() == [[True, True], [False, False], [True, True], [False, False], [False, False]]


# -- equal answers


def test_of_equal_answers_of_a_group_the_first_session_stays():
    found = on_rows(
        duplicate_mask,
        [[0, 1, 1], [0, 1, 1], [0, 1, 1], [0, 1, 1], [0, 1, 0]],
        tokens=[[9, 4, 5], [1, 4, 5], [9, 4, 6], [9, 4, 5], [9, 4, 5]],
        group=[2, 2, 2, 7, 2],
        session=[30, 10, 20, 40, 50],
        score=[1.0] * 5,
    )
    # Prompts do not count, another group does not, a prefix is another answer.
    assert found["mask"].any(1).tolist() == [False, True, True, True, True]


def test_answers_are_compared_over_all_rows_of_a_session_and_unscored_ones_stand_for_nobody():
    found = on_rows(
        duplicate_mask,
        [[1, 0], [0, 1], [1, 1], [1, 1]],
        tokens=[[4, 0], [0, 5], [4, 5], [4, 5]],
        group=[2] * 4,
        session=[1, 1, 3, 0],
        segment=[0, 1, 0, 0],
        score=[1.0, 1.0, 1.0, NAN],
    )
    assert found["mask"].any(1).tolist() == [True, True, False, False]


# -- parts


def test_parts_of_a_score_are_mixed_and_placed():
    given = {"score_components": [[1.0, 0.5], [0.0, 2.0]], "score": [1.0, 0.0]}
    found = on_rows(bind(weighted_components, weights=(1.0, -2.0)), [[1, 1, 0], [0, 1, 0]], **given)
    assert found["reward"].tolist() == [0, -4]
    assert found["token_reward"].tolist() == [[0, 0, 0], [0, -4, 0]]
    assert on_rows(weighted_components, [[1], [1]], **given)["reward"].tolist() == [1.5, 2]
    with pytest.raises(ConfigError, match="1 weights"):
        on_rows(bind(weighted_components, weights=(1.0,)), [[1], [1]], **given)
