"""What a component is handed, and how its result is laid back."""

from typing import NamedTuple

import pytest
import torch

from rlcore import Batch, Node
from rlcore.component import Read, bind, reads
from rlcore.errors import ComponentError, GraphError
from rlcore.execute import adapters
from rlcore.execute.local import _fresh_sessions
from rlcore.math import group_mean, group_size, place_on_last_token
from rlcore_algorithms.advantages import gae, group_norm, whiten

NAN = float("nan")


def leave_one_out(reward, group, *, scale: float = 1.0):
    """A stranger's ten lines, which know nothing of NaN, prompts or sessions."""
    n = group_size(group)
    return scale * (reward - group_mean(reward, group)) * n / (n - 1).clamp(min=1)


def batch_of(*rows, **columns):
    """Rows as text, p = prompt, s = sampled, o = observation, m = sampled and masked; and their columns."""
    text = "".join(rows)
    sampled = torch.tensor([c in "sm" for c in text])
    return Batch(
        {
            "length": [len(row) for row in rows],
            "prompt_length": [len(row) - len(row.lstrip("p")) for row in rows],
            "tokens": torch.arange(len(text)),
            "sampled": sampled,
            "mask": torch.tensor([c == "s" for c in text]),
            "group": torch.zeros(len(rows), dtype=torch.int64),
            "session": torch.arange(len(rows)),
            "segment": torch.zeros(len(rows), dtype=torch.int64),
            **columns,
        }
    )


def estimate(component, batch, **scalars):
    node = Node(component, name="advantage", kind="advantage")
    taken = tuple(dict.fromkeys([*(r.name for r in reads(component)), "length", "sampled"]))
    return adapters.call_on_sessions(node, component, batch, taken, scalars)


def on_rows(component, batch, *, kind="shaping", writes=None, columns=None, **scalars):
    node = Node(component, name="stranger", kind=kind, writes=writes, columns=columns)
    return adapters.call_on_rows(node, component, batch, tuple(r.name for r in node.reads), scalars)


def filtered(component, batch, *, per=""):
    node = Node(component, name="filter", kind="filter", per=per)
    return adapters.call_filter(node, component, batch, tuple(r.name for r in node.reads), {})


def seen_by(batch, *names):
    """What an estimator that reads these columns is handed."""
    found = {}

    def look(**columns):
        found.update(columns)
        return torch.zeros(len(columns["length"]))

    space = {"look": look}
    arguments = ", ".join(names)
    exec(f"def spy({arguments}):\n    return look({', '.join(f'{n}={n}' for n in names)})", space)
    estimate(space["spy"], batch)
    return found


# -- the example that a stranger writes


def example():
    """Two prompts. Group 7: scores 1, 0 and one not scorable. Group 9: two rows of one session worth 3, and a 1."""
    batch = batch_of(
        "pss",
        "ppsss",
        "ps",
        "pss",  # first part of session 30
        "ppsos",  # its last part, with an observation in it
        "psp",
        group=[7, 7, 7, 9, 9, 9],
        session=[10, 11, 12, 30, 30, 31],
        segment=[0, 0, 0, 0, 1, 0],
        score=[1.0, 0.0, NAN, 3.0, 3.0, 1.0],
    )
    placed = adapters.call_on_rows(
        Node(place_on_last_token, name="placing", kind="shaping"),
        place_on_last_token,
        batch,
        ("score", "sampled", "session", "segment"),
        {},
    )
    return batch.assign(placed)


def test_the_reward_of_a_session_stands_once_on_the_last_sampled_token_of_its_last_part():
    batch = example()
    assert batch["reward"].tolist() == [1.0, 0.0, 0.0, 0.0, 3.0, 1.0]
    assert batch["token_reward"][4].tolist() == [0.0, 0.0, 0.0, 0.0, 3.0]
    assert batch["token_reward"][0, :3].tolist() == [0.0, 0.0, 1.0]


def test_leave_one_out_with_an_unscored_row_and_a_session_of_two_rows_gives_the_right_numbers():
    # Group 7: the row without a score has no vote, so 1 and 0 are compared with each other: 1 and -1.
    # Group 9: the two rows are one sample worth 3, not two worth 3 and 3 or 0 and 3; with 1 that gives 2 and -2.
    advantage = estimate(leave_one_out, example())["advantage"]
    assert advantage.tolist() == [0, 1, 1, 0, 0, -1, -1, -1, 0, 0, 0, 2, 2, 0, 0, 2, 0, 2, 0, -2, 0]
    assert estimate(bind(leave_one_out, scale=0.5), example())["advantage"].tolist()[1] == 0.5


def test_row_order_does_not_matter_to_it():
    order = torch.tensor([4, 2, 0, 5, 3, 1])
    batch = example()
    expected = batch.assign(estimate(leave_one_out, batch)).take(order)
    shuffled = batch.take(order)
    assert torch.equal(shuffled.assign(estimate(leave_one_out, shuffled))["advantage"], expected["advantage"])


# -- the view


def test_an_estimator_sees_sampled_tokens_only_left_aligned_with_nothing_of_the_prompt():
    batch = batch_of("ppsos", "pss", "p" * 4, old_logprob=[9.0, 9, -1, 9, -2, 9, -3, -4, 9, 9, 9, 9], score=[1.0, 2, 3])
    seen = seen_by(batch, "old_logprob", "length", "prompt_length", "sampled", "score")
    assert seen["old_logprob"].tolist() == [[-1.0, -2.0], [-3.0, -4.0]]
    assert seen["length"].tolist() == [2, 2]
    assert seen["prompt_length"].tolist() == [0, 0]
    assert seen["sampled"].all()
    # The row in which nothing was sampled has no vote.
    assert seen["score"].tolist() == [1.0, 2.0]


def test_a_session_of_several_rows_is_one_row_end_to_end_in_the_order_of_its_parts():
    batch = batch_of(
        "ps",
        "pss",
        "pso",
        session=[5, 6, 5],
        segment=[1, 0, 0],
        old_logprob=[9.0, -3, 9, -7, -8, 9, -1, 9],
        reward=[2.0, 4.0, 1.0],
        score=[3.0, 4.0, 3.0],
        stop=[1, 0, 0],
    )
    seen = seen_by(batch, "old_logprob", "length", "reward", "stop")
    assert seen["old_logprob"].tolist() == [[-1.0, -3.0], [-7.0, -8.0]]
    # The reward is summed over the session, everything else is the last part's.
    assert seen["reward"].tolist() == [3.0, 4.0]
    assert seen["stop"].tolist() == [1, 0]


def test_a_mask_may_have_holes_in_the_view_and_a_row_that_is_all_masked_has_no_vote():
    batch = batch_of("psms", "pmm", reward=[1.0, 5.0], score=[1.0, 5.0])
    seen = seen_by(batch, "mask", "reward", "length")
    assert seen["mask"].tolist() == [[True, False, True]]
    assert seen["reward"].tolist() == [1.0]
    laid = estimate(lambda reward: reward, batch)["advantage"]
    assert laid.tolist() == [0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]


def test_one_score_that_is_nan_unscores_the_whole_session():
    batch = batch_of(
        "ps", "ps", "ps", session=[1, 1, 2], segment=[0, 1, 0], score=[NAN, 1.0, 1.0], reward=[0.0, 1.0, 1.0]
    )
    assert adapters.scored_sessions(batch).tolist() == [False, False, True]
    assert seen_by(batch, "reward", "length")["reward"].tolist() == [1.0]


@pytest.mark.parametrize("case", ["unscored", "masked", "empty"])
def test_where_no_row_has_a_vote_everything_is_zero_and_the_estimator_is_not_called(case):
    batch = {
        "unscored": batch_of("ps", "pss", score=[NAN, NAN], reward=[0.0, 0.0]),
        "masked": batch_of("pm", "pmm", score=[1.0, 2.0], reward=[1.0, 2.0]),
        "empty": batch_of("p", "pp", score=[1.0, 2.0], reward=[1.0, 2.0]),
    }[case]

    def never(reward):
        raise AssertionError("there is nothing to estimate")

    assert not estimate(never, batch)["advantage"].any()
    assert estimate(
        gae, batch.assign({"value": torch.zeros(batch.tokens_total), "token_reward": torch.zeros(batch.tokens_total)})
    ).keys() == {
        "advantage",
        "returns",
    }


def test_gae_over_observations_equals_gae_on_the_compacted_row():
    # By hand: delta_4 = 1 - 0.25 = 0.75; delta_1 = 0.25 - 0.5 = -0.25; A_1 = -0.25 + 0.95 x 0.75 = 0.4625.
    columns = {"score": [1.0], "reward": [1.0]}
    holes = batch_of("psoos", token_reward=[0.0, 0, 0, 0, 1], value=[NAN, 0.5, NAN, 1e6, 0.25], **columns)
    compact = batch_of("pss", token_reward=[0.0, 0, 1], value=[0.0, 0.5, 0.25], **columns)
    found = estimate(bind(gae, lam=0.95), holes)
    assert found["advantage"].tolist() == pytest.approx([0, 0.4625, 0, 0, 0.75])
    assert found["returns"].tolist() == pytest.approx([0, 0.9625, 0, 0, 1.0])
    same = estimate(bind(gae, lam=0.95), compact)
    for name in ("advantage", "returns"):
        assert torch.equal(same[name][[1, 2]], found[name][[1, 4]])


def test_garbage_in_what_is_not_voting_reaches_no_number():
    clean = batch_of(
        "pss", "psos", "ps", "pm", score=[1.0, 0.0, NAN, 4.0], reward=[1.0, 0.0, 0.0, 4.0], group=[0, 0, 0, 0]
    )
    dirty = clean.assign(
        {"reward": torch.tensor([1.0, 0.0, NAN, 1e30]), "old_logprob": torch.full((clean.tokens_total,), NAN)}
    )
    assert torch.equal(estimate(group_norm, clean)["advantage"], estimate(group_norm, dirty)["advantage"])


def test_a_group_left_with_one_scored_row_gives_zero():
    batch = batch_of("ps", "ps", "ps", score=[1.0, NAN, NAN], reward=[1.0, 0.0, 0.0])
    assert not estimate(group_norm, batch)["advantage"].any()


def test_a_chain_rewrites_the_advantage_of_sampled_tokens():
    batch = example()
    first = batch.assign(estimate(leave_one_out, batch))
    whitened = estimate(whiten, first)["advantage"]
    on = batch.flat("mask") & adapters.voting_rows(batch)[batch.row_of_token]
    assert whitened[on].mean().abs() < 1e-6
    assert not whitened[~on].any()


@pytest.mark.parametrize("wrong", [torch.zeros(3), torch.zeros(2, 5), 1.0, None])
def test_an_estimate_of_another_shape_is_refused_with_what_was_expected(wrong):
    with pytest.raises(ComponentError, match=r"node 'advantage' .*for each row, \[2\], or for each token, \[2, 2\]"):
        estimate(lambda reward: wrong, batch_of("pss", "ps", reward=[1.0, 0.0], score=[1.0, 0.0]))


def test_outputs_that_were_not_declared_or_are_missing_are_refused():
    batch = batch_of("ps", reward=[1.0], score=[1.0])
    with pytest.raises(ComponentError, match="gave advantage, surprise; it is declared to write advantage"):
        estimate(lambda reward: {"advantage": reward, "surprise": reward}, batch)
    with pytest.raises(ComponentError, match="gave nothing"):
        estimate(lambda reward: {}, batch)
    with pytest.raises(GraphError, match="reads 'value', which this batch does not have"):
        estimate(lambda value: value, batch)


def test_an_optional_read_gets_its_column_or_none():
    def spread(reward, value=None):
        return reward if value is None else reward + value.sum(1)

    batch = batch_of("ps", reward=[1.0], score=[1.0])
    assert estimate(spread, batch)["advantage"].tolist() == [0.0, 1.0]
    assert estimate(spread, batch.assign({"value": [9.0, 2.0]}))["advantage"].tolist() == [0.0, 3.0]


def test_a_column_without_dimensions_arrives_as_its_value():
    batch = batch_of("ps", reward=[2.0], score=[1.0])
    assert estimate(lambda reward, kl_coefficient: reward * kl_coefficient, batch, kl_coefficient=0.5)[
        "advantage"
    ].tolist() == [0.0, 1.0]


# -- whole rows


class Both(NamedTuple):
    reward: torch.Tensor
    token_reward: torch.Tensor


def test_a_row_node_gets_whole_rows_with_zero_off_the_sampled_tokens_and_unscored_rows_off():
    seen = {}

    def look(reward, token_reward, tokens, old_logprob, group) -> Both:
        seen.update(reward=reward, token_reward=token_reward, tokens=tokens, old_logprob=old_logprob)
        return Both(reward, token_reward)

    batch = batch_of(
        "pso",
        "ps",
        score=[1.0, NAN],
        reward=[1.0, NAN],
        token_reward=[NAN, 1, NAN, NAN, NAN],
        old_logprob=[NAN, -1, NAN, NAN, -2],
    )
    on_rows(look, batch)
    assert seen["reward"].tolist() == [1.0, 0.0]
    assert seen["token_reward"].tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    assert seen["old_logprob"].tolist() == [[0.0, -1.0, 0.0], [0.0, 0.0, 0.0]]
    assert seen["tokens"].tolist() == [[0, 1, 2], [3, 4, 0]]


def test_a_reward_off_the_sampled_tokens_is_refused_by_name():
    # B17: a dialogue that ends with an observation.
    def on_the_last_token(reward, token_reward) -> Both:
        placed = torch.zeros_like(token_reward)
        placed[:, -1] = 1.0
        return Both(reward, placed)

    batch = batch_of("pso", score=[1.0], reward=[1.0], token_reward=[0.0, 1.0, 0.0])
    with pytest.raises(ComponentError, match="node 'stranger': 'token_reward' is not 0 off the sampled tokens .row 0."):
        on_rows(on_the_last_token, batch)


def test_what_else_a_row_node_writes_off_the_sampled_tokens_becomes_zero():
    def weights(old_logprob):
        return torch.full_like(old_logprob, 2.0)

    found = on_rows(
        weights, batch_of("pso", score=[1.0], old_logprob=[0.0, -1.0, 0.0]), kind="correction", writes=("weight",)
    )
    assert found["weight"].tolist() == [[0.0, 2.0, 0.0]]


@pytest.mark.parametrize("wrong", [torch.zeros(3, 2), [1.0, 2.0], torch.zeros(2)])
def test_a_row_node_that_writes_another_shape_is_refused(wrong):
    with pytest.raises(ComponentError, match="node 'stranger'.*'weight'"):
        on_rows(lambda reward: wrong, batch_of("ps", "ps", score=[1.0, 1.0], reward=[1.0, 1.0]), writes=("weight",))


def test_a_row_node_that_drops_rows_lays_its_own_columns_beside_those_that_are_left():
    class Kept(NamedTuple):
        rows: torch.Tensor
        reward: torch.Tensor
        weight: torch.Tensor

    def keep_two(reward) -> Kept:
        rows = torch.tensor([2, 0])
        return Kept(rows, reward[rows] * 10, torch.tensor([[0.0, 1.0, 2.0], [0.0, 3.0, 0.0]]))

    batch = batch_of("ps", "pssss", "pss", score=[1.0, 2.0, 3.0], reward=[1.0, 2.0, 3.0])
    found = on_rows(keep_two, batch)
    left = batch.take(found.pop("rows")).assign(found)
    assert left["tokens"][0].tolist() == [7, 8, 9]
    assert left["reward"].tolist() == [30.0, 10.0]
    assert left["weight"].tolist() == [[0.0, 1.0, 2.0], [0.0, 3.0, 0.0]]


def test_an_off_policy_correction_may_rewrite_the_mask():
    def drop_unlikely(old_logprob, mask):
        return mask & (old_logprob > -2)

    batch = batch_of("pss", score=[1.0], old_logprob=[0.0, -1.0, -3.0])
    assert on_rows(drop_unlikely, batch, kind="correction", writes=("mask",))["mask"].tolist() == [[False, True, False]]


# -- filters


def test_a_filter_gets_raw_rows_and_may_reorder_whole_groups():
    batch = batch_of("ps", "ps", "ps", "ps", group=[1, 1, 2, 2], score=[1.0, NAN, 0.0, 1.0])
    seen = {}

    def last_group_first(score, group):
        seen["score"] = score
        return torch.tensor([2, 3, 0, 1])

    assert filtered(last_group_first, batch).tolist() == [2, 3, 0, 1]
    assert seen["score"].isnan().tolist() == [False, True, False, False]
    assert filtered(lambda score, group: torch.tensor([], dtype=torch.int64), batch).tolist() == []
    assert filtered(lambda score, group: [0, 1], batch).tolist() == [0, 1]


def test_a_filter_that_keeps_a_part_of_a_group_is_refused_unless_it_works_on_rows():
    batch = batch_of("ps", "ps", "ps", "ps", group=[1, 1, 2, 2], score=[1.0, 0.0, 0.0, 1.0])

    def best(score, group):
        return (score > 0).nonzero().flatten()

    with pytest.raises(
        ComponentError,
        match="filter 'filter' keeps a part of group 1; it must keep whole groups, or be listed with per='row'",
    ):
        filtered(best, batch)
    assert filtered(best, batch, per="row").tolist() == [0, 3]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (torch.tensor([True, False]), r"expected int64 indices \[n\]; a mask becomes indices by mask.nonzero"),
        (torch.tensor([0.0]), "expected int64 indices"),
        (torch.tensor([[0, 1]]), "expected int64 indices"),
        (torch.tensor([0, 2]), "gave rows between 0 and 2; it was handed 2"),
        (torch.tensor([-1]), "it was handed 2"),
    ],
)
def test_rows_that_are_no_indices_are_refused(rows, message):
    with pytest.raises(ComponentError, match=message):
        filtered(lambda score, group: rows, batch_of("ps", "ps", score=[1.0, 0.0]))


def test_a_list_of_truths_is_refused_like_a_mask():
    with pytest.raises(ComponentError, match="a mask becomes indices"):
        filtered(lambda score, group: [True, False], batch_of("ps", "ps", score=[1.0, 0.0]))


def test_rows_that_are_taken_again_become_sessions_of_their_own():
    batch = batch_of("ps", "pss", "ps", session=[4, 4, 9], segment=[0, 1, 0], score=[1.0, 1.0, 0.0], group=[1, 1, 1])
    again = _fresh_sessions(batch, torch.tensor([0, 1, 2, 0, 1]))
    session = again["session"].tolist()
    assert session[:3] == [4, 4, 9]
    assert session[3] == session[4]
    assert session[3] not in (4, 9)
    assert again["group"].tolist() == [1] * 5
    # Without a repeat nothing changes.
    assert _fresh_sessions(batch, torch.tensor([2, 0, 1]))["session"].tolist() == [9, 4, 4]


def test_optional_reads_are_declared_as_such():
    assert Read("value", optional=True) in Node(lambda reward, value=None: reward, kind="advantage", name="x").reads


# -- what a component raises


def _own_key(reward):
    return {}["mine"]


def _leaves(reward):
    raise SystemExit(0)


def _interrupted(reward):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("part", "kind"), [(_own_key, "KeyError: 'mine'"), (_leaves, "SystemExit: 0")])
def test_what_a_component_raises_names_node_component_and_place(part, kind):
    with pytest.raises(ComponentError, match=rf"node 'advantage': {part.__name__} failed at .*test_adapters.py:\d+ "):
        estimate(part, batch_of("ps", reward=[1.0]))
    with pytest.raises(ComponentError, match=kind) as caught:
        estimate(part, batch_of("ps", reward=[1.0]))
    assert caught.value.__cause__ is not None


def test_an_interrupt_passes():
    with pytest.raises(KeyboardInterrupt):
        estimate(_interrupted, batch_of("ps", reward=[1.0]))


# -- what a filter may give


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, r"filter 'filter' gave None; expected int64 indices"),
        ("ab", r"filter 'filter' gave str; expected int64 indices"),
        (torch.tensor([0j]), r"gave rows of torch.complex64 .*expected int64 indices"),
        ([0, 1, 1], r"filter 'filter' gave row 1 2 times"),
    ],
)
def test_what_are_no_rows_to_keep_is_refused(given, said):
    batch = batch_of("ps", "ps", score=[0.0, 1.0])
    with pytest.raises(ComponentError, match=said):
        filtered(lambda score, group: given, batch)


def test_a_filter_of_the_whole_batch_may_give_a_row_again():
    batch = batch_of("ps", "ps", score=[0.0, 1.0])
    assert filtered(lambda score: [1, 1], batch, per="batch").tolist() == [1, 1]
