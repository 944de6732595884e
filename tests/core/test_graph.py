"""The rules by which a list of nodes becomes a plan, one by one."""

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch

from rlcore import Algorithm, Graph, GraphError, Node, Term, Update
from rlcore.algorithm import From
from rlcore.columns import COLUMNS, Column
from rlcore.component import Read, bind
from rlcore.errors import UnknownNameError
from rlcore.math import k3
from rlcore.protocols import Forward

TABLE = COLUMNS
for letter in "abcdef":
    TABLE = TABLE.declare(
        Column(
            name=letter,
            dims=("B",),
            dtype="float",
            meaning=f"the column {letter}",
            writer="a test",
            rewritable=letter != "f",
        )
    )
for letter in "xy":
    TABLE = TABLE.declare(
        Column(name=letter, dims=(), dtype="float", meaning=f"the scalar {letter}", writer="a test", rewritable=True)
    )


def node(name, reads="", writes="", **more):
    def call(*columns):
        raise AssertionError("a graph is resolved without calling anything")

    listed = [Read(r.removesuffix("?"), r.endswith("?")) for r in reads.split()]
    return Node(call, name=name, reads=listed, writes=tuple(writes.split()), table=TABLE, **more)


def graph(*nodes, goals="a"):
    return Graph(tuple(nodes), goals=tuple(goals.split()), table=TABLE)


def alive(resolved):
    return [n.name for n in resolved.nodes]


def nothing(logprob, old_logprob, advantage):
    return logprob


def mean(mask, counts):
    return mask


def reads_reward(reward, group):
    return reward


def algorithm(**parts):
    return Algorithm("x", **{"advantage": reads_reward, "loss": nothing, "reduction": mean, **parts})


# -- writers


def test_a_reader_takes_the_nearest_earlier_writer():
    plan = graph(node("one", "", "b"), node("two", "", "b"), node("goal", "b", "a"), node("three", "", "b")).resolve()
    assert plan.sources["goal", "b"] == "two"
    assert alive(plan) == ["two", "goal"]
    assert plan.pruned == ("one", "three")


def test_a_node_that_reads_and_writes_a_column_rewrites_it_for_those_after_it():
    plan = graph(node("make", "", "b"), node("change", "b", "b"), node("goal", "b", "a")).resolve()
    assert plan.sources["goal", "b"] == "change"
    assert plan.sources["change", "b"] == "make"
    assert "~b" in plan.show()


def test_a_node_that_writes_without_reading_replaces_and_the_print_marks_it():
    plan = graph(
        node("make", "", "b"), node("early", "b", "c"), node("again", "", "b"), node("goal", "b c", "a")
    ).resolve()
    assert plan.sources["early", "b"] == "make"
    assert plan.sources["goal", "b"] == "again"
    assert ">b" in plan.show()


def test_only_columns_that_the_table_marks_may_be_rewritten():
    with pytest.raises(GraphError, match="node 'change' reads and writes 'f', which may not be rewritten"):
        graph(node("make", "", "f"), node("change", "f", "f"), node("goal", "f", "a")).resolve()


def test_two_nodes_of_one_name_are_refused():
    with pytest.raises(GraphError, match="two nodes are named 'twin'"):
        graph(node("twin", "", "a"), node("twin", "", "b"))


def test_a_node_that_says_nowhere_what_it_writes_is_refused():
    with pytest.raises(GraphError, match="writes nothing: give `writes`"):
        Node(reads_reward, name="stranger")
    with pytest.raises(UnknownNameError, match="Did you mean 'filter'"):
        Node(reads_reward, kind="filtre")


def test_a_named_tuple_says_what_a_node_writes_and_columns_rename_both_sides():
    class Pair(NamedTuple):
        reward: torch.Tensor
        score: torch.Tensor

    def pair(reward, group) -> Pair: ...

    assert Node(pair).writes == ("reward", "score")
    renamed = Node(pair, columns={"reward": "greedy_reward"})
    assert renamed.writes == ("greedy_reward", "score")
    assert [r.name for r in renamed.reads] == ["greedy_reward", "group"]


# -- goals and pruning


def test_what_no_goal_reaches_is_pruned():
    plan = graph(
        node("b", "", "b"), node("beside", "b", "c"), node("goal", "b", "a"), node("after", "a", "d")
    ).resolve()
    assert alive(plan) == ["b", "goal"]
    assert set(plan.pruned) == {"beside", "after"}


def test_a_goal_that_nobody_writes_is_refused():
    with pytest.raises(GraphError, match="the goal 'e' is written by no node"):
        graph(node("goal", "", "a"), goals="e").resolve()


def test_pruning_goes_down_to_the_single_columns_of_a_node():
    forward = Node(
        Forward({"old_logprob": "logprob", "old_entropy": "entropy"}), name="old", kind="forward", role="trainer"
    )
    prompts, rollout = Node(name="prompts", kind="prompts", reads=()), Node(name="rollout", kind="rollout", reads=())
    wanted = Graph(
        (prompts, rollout, forward, Node(name="goal", reads=("old_entropy",), writes=("advantage",))),
        goals=("advantage",),
    ).resolve()
    assert wanted.wanted["old"] == {"old_entropy"}
    assert "rollout_logprob" not in wanted.wanted["rollout"]
    assert {"tokens", "length", "sampled"} <= wanted.wanted["rollout"]


def test_structural_columns_of_a_living_node_stay_alive_and_are_no_reason_to_compute():
    plan = graph(node("two", "", "b group"), node("goal", "b", "a")).resolve()
    assert plan.wanted["two"] == {"b", "group"}
    assert alive(graph(node("ids", "", "group"), node("goal", "", "a")).resolve()) == ["goal"]


def test_an_optional_read_counts_once_its_column_has_an_earlier_writer():
    plain = graph(node("goal", "b?", "a")).resolve()
    assert ("goal", "b") not in plain.sources
    assert plain.available_reads(plain.nodes[0]) == ()
    later = graph(node("goal", "b?", "a"), node("b", "", "b")).resolve()
    assert alive(later) == ["goal"]
    earlier = graph(node("b", "", "b"), node("goal", "b?", "a")).resolve()
    assert alive(earlier) == ["b", "goal"]


# -- carry-over


def test_a_column_without_dimensions_carries_over_from_the_last_writer_of_the_list():
    plan = graph(node("goal", "x", "a"), node("early", "", "x"), node("late", "x", "x")).resolve()
    assert plan.sources["goal", "x"] == "late"
    assert plan.sources["late", "x"] == "early"
    assert plan.carried == {"x"}
    assert "x*" in plan.show()


def test_a_column_without_dimensions_that_nobody_writes_comes_from_the_run():
    plan = graph(node("goal", "x kl_coefficient", "a")).resolve()
    assert plan.sources["goal", "x"] is None
    assert plan.carried == {"x", "kl_coefficient"}


def test_a_column_of_rows_never_carries_over_and_the_gap_says_who_writes_it_later():
    with pytest.raises(
        GraphError,
        match=r"node 'goal' reads 'b' \(the column b\), but it is written only later, by b. Written before it: c",
    ):
        graph(node("c", "", "c"), node("goal", "b c", "a"), node("b", "", "b")).resolve()


def test_a_gap_names_what_would_provide_the_column():
    with pytest.raises(GraphError, match="reads 'value' .* no node writes it; it comes from: critic"):
        graph(node("goal", "value", "a")).resolve()
    with pytest.raises(GraphError, match="reads 'greedy_reward' .* it comes from: greedy reward"):
        graph(node("goal", "greedy_reward", "a")).resolve()


def test_reaching_follows_carry_over():
    plan = graph(node("goal", "x", "a"), node("b", "", "b"), node("controller", "b x", "x")).resolve()
    assert alive(plan) == ["goal", "b", "controller"]


def test_roles_are_the_weights_that_living_nodes_read():
    def forward(column, role):
        return node(f"{role} forward", f"weights.{role}", column)

    plan = graph(forward("b", "reference"), forward("c", "critic"), node("goal", "b", "a")).resolve()
    assert plan.roles == ("reference",)
    assert algorithm().graph().resolve().roles == ("sampler", "trainer")
    assert algorithm(kl=k3, kl_coefficient=0.1).graph().resolve().roles == ("reference", "sampler", "trainer")


# -- filters


def test_a_filter_stands_on_edges_that_lead_over_it_and_lives_exactly_then():
    dropper = node("filter", "b", "", rows=True)
    over = graph(node("b", "", "b"), dropper, node("goal", "b", "a")).resolve()
    assert alive(over) == ["b", "filter", "goal"]
    nothing_over = graph(node("b", "", "b"), dropper, node("c", "", "c"), node("goal", "c", "a")).resolve()
    assert alive(nothing_over) == ["c", "goal"]
    only_scalars = graph(node("x", "", "x"), node("b", "", "b"), dropper, node("goal", "x", "a")).resolve()
    assert alive(only_scalars) == ["x", "goal"]


def test_what_a_standing_filter_reads_is_computed_for_it():
    plan = graph(
        node("b", "", "b"), node("c", "", "c"), node("filter", "c", "", rows=True), node("goal", "b", "a")
    ).resolve()
    assert alive(plan) == ["b", "c", "filter", "goal"]


def test_a_filter_before_everything_needs_a_column_to_stand_on():
    plan = graph(
        node("e", "", "e"), node("filter", "e", "", rows=True), node("b", "", "b"), node("goal", "b", "a")
    ).resolve()
    assert alive(plan) == ["b", "goal"]


# -- stream and step


def kept(score, group): ...


def test_the_learning_stage_is_batch_nodes_readers_of_rewritten_weights_and_their_readers():
    plan = algorithm(filter=kept, kl=k3, kl_coefficient=0.1).graph().resolve()
    assert [n.name for n in plan.rollout_stage] == ["prompts", "rollout", "reward", "placing", "filter", "ref_logprob"]
    assert [n.name for n in plan.learning_stage] == ["advantage", "update", "sync_sampler"]
    assert "filter (refills)" in plan.show()


def test_old_log_probabilities_belong_to_the_step_because_their_weights_are_rewritten():
    plan = algorithm(minibatches=2).graph().resolve()
    assert "old_logprob" in {n.name for n in plan.learning_stage}


def test_a_filter_that_reads_what_the_step_makes_belongs_to_the_step_and_only_shrinks():
    by_old = (
        algorithm()
        .graph()
        .insert(Node(lambda old_logprob, group: group, name="late filter", kind="filter"), before="advantage")
    )
    plan = by_old.resolve()
    assert "late filter" in {n.name for n in plan.learning_stage}
    assert "(refills)" not in plan.show()


def test_only_row_nodes_are_moved_across_a_filter_of_the_step():
    late = Node(lambda old_logprob, group: group, name="late filter", kind="filter")
    second = Node(lambda score, group: group, name="second filter", kind="filter")
    base = algorithm().graph().insert(late, before="advantage").insert(second, before="advantage")
    assert {"late filter", "second filter"} <= {n.name for n in base.resolve().learning_stage}


# -- resting


def test_a_node_may_rest_where_each_column_it_writes_has_another_source():
    resting = {"active": From(2)}
    earlier = graph(node("b", "", "b"), node("b2", "b", "b", **resting), node("goal", "b", "a"))
    assert alive(earlier.at(0)) == ["b", "goal"]
    assert alive(earlier.at(2)) == ["b", "b2", "goal"]
    carried = graph(node("goal", "x", "a"), node("x", "", "x", **resting))
    assert alive(carried.at(0)) == ["goal"]
    optional = graph(node("b", "", "b", **resting), node("goal", "b?", "a"))
    assert alive(optional.at(0)) == ["goal"]


def test_a_node_that_would_leave_a_gap_may_not_rest_and_this_is_found_before_the_first_step():
    with pytest.raises(
        GraphError, match="node b may rest only if each column it writes has another source: node 'goal' reads 'b'"
    ):
        graph(node("b", "", "b", active=From(2)), node("goal", "b", "a")).resolve()
    with pytest.raises(GraphError, match="may rest only if"):
        graph(node("goal", "", "a", active=From(2)), node("b", "", "b"), goals="a b").resolve()


def test_a_resting_step_still_makes_what_the_whole_graph_carries_over():
    # While the policy rests, the critic goes on learning, although no goal of the step reads it.
    ppo = algorithm(
        advantage=lambda token_reward, value: value,
        value_loss=lambda new_value, value, advantage: value,
        critic_warmup=3,
    ).graph()
    assert "critic_update" in alive(ppo.at(0))
    assert "update" not in alive(ppo.at(0))
    assert {"critic_update", "update"} <= set(alive(ppo.at(3)))


def test_a_writer_that_only_a_resting_step_needs_brings_its_model_too():
    by_teacher = node("teacher", "weights.teacher", "b")
    replaced = node("later", "", "b", active=From(2))
    plan = graph(by_teacher, replaced, node("goal", "b", "a"))
    assert alive(plan.at(0)) == ["teacher", "goal"]
    assert alive(plan.at(2)) == ["later", "goal"]
    assert plan.resolve().roles == ("teacher",)


# -- what the update makes itself


def offered(built):
    return dict(next(n for n in built.nodes if n.name == "update").call.provides)


def test_with_one_update_a_step_the_update_offers_the_old_log_probabilities():
    built = algorithm().graph()
    assert offered(built) == {"old_logprob": "logprob"}
    assert "old_logprob" in built.resolve().pruned


def test_several_updates_or_a_select_need_the_forward_pass():
    class Masked(NamedTuple):
        mask: torch.Tensor

    def select(logprob, mask) -> Masked: ...

    for parts in ({"minibatches": 2}, {"epochs": 2}, {"selects": (select,)}):
        built = algorithm(**parts).graph()
        assert offered(built) == {}
        assert "old_logprob" in alive(built.resolve())


def test_where_another_node_reads_them_they_are_computed_once_and_the_update_may_still_offer():
    built = algorithm(kl_in_reward=k3, kl_in_reward_coefficient=0.1).graph()
    assert "old_logprob" in alive(built.resolve())


def test_a_copy_of_what_the_sampler_said_is_another_writer_and_forbids_the_offer():
    class Old(NamedTuple):
        old_logprob: torch.Tensor

    def copied(rollout_logprob) -> Old: ...

    built = algorithm(extra=((Node(copied, name="bypass"), "after", "old_logprob"),)).graph()
    assert offered(built) == {}
    plan = built.resolve()
    assert plan.sources["update", "old_logprob"] == "bypass"
    assert "old_logprob" in plan.pruned


def test_an_update_reads_what_its_terms_name_and_nothing_that_it_makes_itself():
    def loss(logprob, entropy, advantage, weight=None):
        return logprob

    update = Node(
        Update((Term(loss, mean), Term(nothing, mean, "kl_coefficient"))), kind="update", role="trainer", name="u"
    )
    names = {r.name: r.optional for r in update.reads}
    assert {"advantage", "old_logprob", "kl_coefficient", "weights.trainer", "tokens", "mask"} <= set(names)
    assert not {"logprob", "entropy", "counts"} & set(names)
    assert names["weight"]


# -- changing a graph


def test_insert_drop_and_swap_give_new_graphs():
    base = graph(node("b", "", "b"), node("goal", "b", "a"))
    changed = base.insert(node("new", "b", "b"), before="goal")
    assert alive(changed.resolve()) == ["b", "new", "goal"]
    assert alive(base.insert(node("new", "b", "b"), after="b").resolve()) == ["b", "new", "goal"]
    assert alive(base.resolve()) == ["b", "goal"]
    assert alive(changed.drop("new").resolve()) == ["b", "goal"]
    assert alive(base.swap("b", node("other", "", "b")).resolve()) == ["other", "goal"]
    for wrong in ({}, {"before": "b", "after": "b"}):
        with pytest.raises(GraphError, match="exactly one of"):
            base.insert(node("new", "", "c"), **wrong)
    for change in (
        base.drop,
        lambda name: base.insert(node("n", "", "c"), before=name),
        lambda name: base.swap(name, node("n", "", "c")),
    ):
        with pytest.raises(UnknownNameError, match="unknown node 'gaol'. Did you mean 'goal'. Known: b, goal"):
            change("gaol")


def test_an_extra_node_of_an_algorithm_stands_where_it_says():
    class Reward(NamedTuple):
        reward: torch.Tensor

    def halved(reward) -> Reward: ...

    built = algorithm(extra=((Node(halved), "before", "advantage"),)).graph()
    names = [n.name for n in built.nodes]
    assert names.index("halved") == names.index("advantage") - 1
    assert built.resolve().sources["advantage", "reward"] == "halved"


def test_a_part_that_is_none_is_not_listed_and_parts_that_only_make_columns_always_are():
    names = {n.name for n in algorithm().graph().nodes}
    assert {"old_logprob", "ref_logprob", "value", "greedy_rollout", "greedy_reward"} <= names
    assert not {"filter", "correction", "kl_in_reward", "controller"} & names


def test_a_term_with_the_constant_coefficient_zero_does_not_exist():
    extra = Term(lambda logprob, ref_logprob: logprob, mean, 0.0)
    assert algorithm(terms=(extra,)).graph().resolve().roles == ("sampler", "trainer")
    assert "reference" in algorithm(terms=(replace(extra, coefficient=0.1),)).graph().resolve().roles
    assert "reference" in algorithm(terms=(replace(extra, coefficient="kl_coefficient"),)).graph().resolve().roles


# -- showing


def test_the_print_marks_carry_over_the_step_and_what_was_pruned():
    shown = algorithm(kl=k3, kl_coefficient=0.1).graph().show()
    lines = {line[3:].split("  ")[0].strip(): line for line in shown.splitlines()}
    assert "loads: reference, sampler, trainer" in shown.splitlines()[0]
    assert "weights.sampler*" in lines["rollout"]
    assert lines["advantage"].startswith("S")
    assert not lines["rollout"].startswith("S")
    assert "~weights.trainer" in lines["update"]
    assert "pruned: " in shown.splitlines()[-1]


def test_a_mermaid_chart_has_every_node_and_marks_carried_edges():
    chart = algorithm().graph().resolve().mermaid()
    assert chart.startswith("flowchart TD")
    assert '["update"]' in chart
    assert "-.->|weights.sampler|" in chart


def test_an_estimator_with_an_inner_part_reads_what_that_part_reads():
    from rlcore.component import Kl

    def shaped(reward, *, inner: Kl = k3):
        return reward

    built = algorithm(advantage=bind(shaped, inner=lambda old_logprob, ref_logprob: old_logprob)).graph()
    assert "reference" in built.resolve().roles
