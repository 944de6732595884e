"""Shapes of training that the design must hold, as skeletons: resolved, pruned, checked and printed, nothing computed.

Each says which models it loads. What a skeleton's function would compute is of no interest here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from rlcore import Algorithm, Graph, GraphError, Node, Term, Update
from rlcore.columns import COLUMNS, NONE, ROW, TOKEN, Column
from rlcore.protocols import Forward

# -- skeleton parts: only their signatures matter


class AdvantageAndReturns(NamedTuple):
    advantage: Any
    returns: Any


class Weighted(NamedTuple):
    weight: Any


class Masked(NamedTuple):
    mask: Any


def group_relative(reward, group): ...


def from_critic(token_reward, value) -> AdvantageAndReturns: ...


def whiten(advantage): ...


def against_greedy(token_reward, greedy_reward): ...


def token_baseline(token_reward, group, old_logprob, old_square_sum): ...


def clipped(logprob, old_logprob, advantage): ...


def plain(logprob, advantage): ...


def squared(new_value, value, returns): ...


def k3(logprob, ref_logprob): ...


def not_all_equal(score, group): ...


def truncated_weights(old_logprob, rollout_logprob, kept_logmass) -> Weighted: ...


def high_covariance(logprob, old_logprob, advantage, mask) -> Masked: ...


def token_mean(mask, counts): ...


def row_mean(mask, counts): ...


def algorithm(name: str, advantage: Any = group_relative, **parts: Any) -> Algorithm:
    return Algorithm(name, advantage, parts.pop("loss", clipped), token_mean, **parts)


def names(graph: Graph) -> set[str]:
    return {n.name for n in graph.resolve().nodes}


def roles(graph: Graph) -> tuple[str, ...]:
    return graph.resolve().roles


# -- the shapes that `Algorithm` stands for


def test_grpo_loads_no_reference_unless_a_kl_term_reads_one():
    assert roles(algorithm("grpo").graph()) == ("sampler", "trainer")
    in_loss = algorithm("grpo", kl=k3, kl_coefficient=0.1).graph()
    assert roles(in_loss) == ("reference", "sampler", "trainer")
    assert "old_logprob" not in names(in_loss)


def test_a_kl_coefficient_of_zero_is_no_term_and_loads_nothing():
    assert roles(algorithm("grpo", kl=k3, kl_coefficient=0.0).graph()) == ("sampler", "trainer")


def test_kl_in_the_reward_needs_the_old_log_probabilities_before_the_update():
    graph = algorithm("grpo", kl_in_reward=k3, kl_in_reward_coefficient=0.1).graph()
    assert roles(graph) == ("reference", "sampler", "trainer")
    assert {"old_logprob", "ref_logprob", "kl_in_reward"} <= names(graph)
    assert {"old_logprob", "kl_in_reward", "update"} <= graph.resolve().learning_names
    assert "ref_logprob" not in graph.resolve().learning_names


def test_ppo_brings_in_the_critic_and_its_update_because_the_estimator_reads_value():
    graph = algorithm("ppo", (from_critic, whiten), value_loss=squared, minibatches=2).graph(title="PPO with critic")
    plan = graph.resolve()
    assert plan.roles == ("critic", "sampler", "trainer")
    assert [n.name for n in plan.learning_stage] == [
        "old_logprob",
        "value",
        "advantage",
        "advantage_2",
        "update",
        "critic_update",
        "sync_sampler",
    ]
    assert plan.pruned == ("greedy_rollout", "greedy_reward", "ref_logprob")
    shown = plan.show().splitlines()
    assert shown[0] == "PPO with critic   goal: weights.trainer   loads: critic, sampler, trainer"
    assert any(line.startswith("S  critic_update") and line.endswith("~weights.critic") for line in shown)


def test_an_estimator_without_value_leaves_the_critic_out_even_where_a_value_loss_is_named():
    assert roles(algorithm("odd", value_loss=squared).graph()) == ("sampler", "trainer")


def test_dapo_refills_because_its_filter_stands_in_the_stream():
    plan = algorithm("dapo", filter=not_all_equal).graph().resolve()
    assert plan.roles == ("sampler", "trainer")
    assert "filter" in [n.name for n in plan.rollout_stage]
    assert "filter (refills)" in plan.show()


def test_remax_samples_greedily_because_its_estimator_reads_the_greedy_reward():
    graph = algorithm("remax", against_greedy, group_size=1).graph()
    assert roles(graph) == ("sampler", "trainer")
    assert {"greedy_rollout", "greedy_reward"} <= names(graph)
    assert "greedy_rollout" not in names(algorithm("grpo").graph())


def test_the_token_baseline_asks_one_forward_pass_for_just_the_readouts_that_it_reads():
    plan = algorithm("otb", token_baseline).graph().resolve()
    assert plan.roles == ("sampler", "trainer")
    assert plan.wanted["old_logprob"] == {"old_logprob", "old_square_sum"}


def test_a_select_forbids_that_the_update_offers_the_old_log_probabilities():
    plan = algorithm("clip_cov", selects=(high_covariance,)).graph().resolve()
    assert plan.roles == ("sampler", "trainer")
    assert "old_logprob" in {n.name for n in plan.nodes}


def test_truncated_importance_sampling_rewrites_the_weight_of_the_update():
    plan = algorithm("tis", correction=truncated_weights).graph().resolve()
    assert plan.roles == ("sampler", "trainer")
    assert plan.sources["update", "weight"] == "correction"
    assert plan.sources["correction", "kept_logmass"] == "rollout"


def test_without_a_correction_the_update_reads_no_weight():
    plan = algorithm("grpo").graph().resolve()
    assert ("update", "weight") not in plan.sources


# -- shapes with a graph of their own


class ProcessReward(NamedTuple):
    reward: Any
    token_reward: Any


def implicit_reward(reward, token_reward, rm_logprob, ref_logprob) -> ProcessReward: ...


def cross_entropy(logprob, ref_logprob, score): ...


def test_prime_trains_a_reward_model_inside_the_step():
    table = COLUMNS.rename("rm_logprob", "ref_logprob")
    graph = algorithm("prime").graph(table=table)
    graph = graph.insert(
        Node(Forward({"rm_logprob": "logprob"}), name="rm_logprob", kind="forward", role="reward_model"),
        before="advantage",
    )
    graph = graph.insert(
        Node(implicit_reward, name="implicit_reward", kind="correction", table=table), before="advantage"
    )
    train = Update((Term(cross_entropy, row_mean),))
    graph = graph.insert(Node(train, name="train_rm", kind="update", role="reward_model", table=table), after="update")
    plan = graph.resolve()
    assert plan.roles == ("reference", "reward_model", "sampler", "trainer")
    assert {"rm_logprob", "train_rm"} <= plan.learning_names
    assert plan.sources["advantage", "reward"] == "implicit_reward"


def test_a_rollout_that_splits_a_trajectory_returns_each_rows_parent():
    graph = algorithm("split").graph()
    rollout = next(n for n in graph.nodes if n.name == "rollout")
    split = Node(
        None,
        name="rollout",
        kind="rollout",
        role="sampler",
        reads=("weights.sampler",),
        writes=(*rollout.writes, "rows"),
    )
    plan = graph.swap("rollout", split).resolve()
    assert plan.roles == ("sampler", "trainer")
    assert split.rows
    assert plan.sources["advantage", "group"] == "prompts"


def test_two_policies_have_a_mask_each_and_load_both_with_their_samplers():
    table = COLUMNS.rename("mask_a", "mask").rename("mask_b", "mask")
    duel = Node(
        None, name="duel", kind="rollout", reads=("weights.sampler_a", "weights.sampler_b"),
        writes=(
            "tokens", "length", "prompt_length", "sampled", "mask_a", "mask_b", "session", "segment", "stop",
            "token_version",
        ),
        table=table,
    )  # fmt: skip
    graph = Graph(
        (Node(name="prompts", kind="prompts", reads=()), duel), ("weights.a", "weights.b"), "two policies", table
    )
    nodes = [
        *graph.nodes,
        Node(None, name="reward", kind="reward", table=table),
        Node(algorithm("x").placing, name="placing", kind="shaping", table=table),
        Node(group_relative, name="advantage", kind="advantage", table=table),
    ]
    for role in ("a", "b"):
        update = Update((Term(plain, token_mean),))
        nodes.append(
            Node(update, name=f"update_{role}", kind="update", role=role, columns={"mask": f"mask_{role}"}, table=table)
        )
        nodes.append(Node(name=f"sync_{role}", kind="sync", role=f"sampler_{role}", reads=(f"weights.{role}",)))
    plan = Graph(tuple(nodes), ("weights.a", "weights.b"), "two policies", table).resolve()
    assert plan.roles == ("a", "b", "sampler_a", "sampler_b")
    assert plan.sources["update_a", "mask_a"] == "duel"


def towards_teachers(logprob, logprob_a, logprob_b): ...


class Routed(NamedTuple):
    sampled_a: Any
    sampled_b: Any


def route(sampled, group) -> Routed: ...


def test_distillation_from_two_teachers_routes_rows_by_renamed_masks():
    table = COLUMNS
    for teacher in ("a", "b"):
        table = table.rename(f"logprob_{teacher}", "ref_logprob").rename(f"sampled_{teacher}", "sampled")
    graph = Graph(
        (
            Node(name="prompts", kind="prompts", reads=()),
            Node(None, name="rollout", kind="rollout", role="sampler", reads=("weights.sampler",)),
            Node(route, name="route", per="row", table=table),
            *(
                Node(
                    Forward({f"logprob_{t}": "logprob"}), name=f"teacher_{t}", kind="forward", role=f"teacher_{t}",
                    columns={"sampled": f"sampled_{t}"}, table=table,
                )
                for t in ("a", "b")
            ),
            Node(
                Update((Term(towards_teachers, token_mean),)), name="update", kind="update", role="trainer",
                table=table,
            ),
            Node(name="sync", kind="sync", role="sampler", reads=("weights.trainer",)),
        ),
        title="two teachers",
        table=table,
    )  # fmt: skip
    plan = graph.resolve()
    assert plan.roles == ("sampler", "teacher_a", "teacher_b", "trainer")
    assert [n.name for n in plan.rollout_stage] == ["prompts", "rollout", "route", "teacher_a", "teacher_b"]


def preference(logprob, ref_logprob, pair, chosen): ...


def test_preference_pairs_need_no_sampler():
    pairs = Node(
        None, name="pairs", kind="prompts", reads=(),
        writes=("tokens", "length", "prompt_length", "sampled", "mask", "pair", "chosen", "group"),
    )  # fmt: skip
    graph = Graph(
        (
            pairs,
            Node(Forward({"ref_logprob": "logprob"}), name="ref_logprob", kind="forward", role="reference"),
            Node(Update((Term(preference, row_mean),)), name="update", kind="update", role="trainer"),
        ),
        title="preference",
    )
    assert graph.resolve().roles == ("reference", "trainer")


def young_enough(token_version, group): ...


def test_asynchronous_partial_rollouts_drop_what_is_too_old_and_refill():
    graph = algorithm("async", correction=truncated_weights).graph()
    graph = graph.insert(Node(young_enough, name="age", kind="filter"), before="old_logprob")
    plan = graph.resolve()
    assert plan.roles == ("sampler", "trainer")
    assert "age" in [n.name for n in plan.rollout_stage]


# -- what does not fit is said before anything loads


def test_a_gap_names_the_column_who_would_write_it_and_what_there_is():
    with pytest.raises(GraphError, match=r"'advantage' reads 'returns_to_go_of_a_critic'|reads 'value'") as caught:
        algorithm("ppo without critic", from_critic).graph().drop("value").resolve()
    assert "it comes from: critic" in str(caught.value)


def test_columns_of_rows_never_carry_over_from_the_last_step():
    late = Node(None, name="late", kind="prompts", reads=(), writes=("reward",))
    graph = Graph((Node(plain, name="early", kind="advantage", reads=("reward",)), late), goals=("advantage",))
    with pytest.raises(GraphError, match="'early' reads 'reward' .* written only later, by late"):
        graph.resolve()


def test_a_declared_column_of_every_dims_is_held_by_a_table():
    table = COLUMNS
    for dims in (NONE, ROW, TOKEN):
        table = table.declare(Column(name=f"mine_{len(dims)}", dims=dims, dtype="float", meaning="mine", writer="me"))
    assert table["mine_2"].dims == TOKEN
