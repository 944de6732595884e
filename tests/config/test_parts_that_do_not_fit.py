"""Parts that do not fit, and options that count for nothing, are told by `rlcore check`: before a model loads."""

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch

from rlcore import Node, Run, bind
from rlcore.algorithm import Algorithm
from rlcore.component import options
from rlcore.config import load, to_yaml
from rlcore.errors import ComponentError, ConfigError, GraphError, UnknownNameError
from rlcore.graph import Graph
from rlcore.math import k1, k3
from rlcore.protocols import Sampler, Term, Update
from rlcore.run.inputs import check_kept_mass
from rlcore.settings import Sampling
from rlcore_algorithms import corrections, filters, grpo, rloo
from rlcore_algorithms.advantages import group_norm, reward_to_go
from rlcore_algorithms.losses import clipped, policy_gradient
from rlcore_algorithms.reductions import sequence_mean_token_mean, token_mean

PLAIN = {"loss": policy_gradient, "reduction": token_mean}
KL = ("kl=k3", "algorithm.kl_coefficient=0.1", "kl_in_reward=k1", "algorithm.kl_in_reward_coefficient=0.1")


def check(**parts):
    """Check a run of plain rows; nothing of the model is looked at."""
    given = {"algorithm": grpo(group_size=2), "data": [{"prompt": "1", "target": "1"}] * 4, "reward": digits, **parts}
    return Run(model="hf:no/model", quiet=True, prompts=2, **given).check()


def digits(completion):
    """A score."""
    return float(completion.isdigit())


digits.bounded = True  # no worker process for each of these checks


# -- groups of one


@pytest.mark.parametrize("part", [filters.dynamic_sampling, bind(filters.accuracy_band, least=2.0, most=3.0)])
def test_a_filter_that_would_keep_nothing_of_prompts_sampled_once(part):
    with pytest.raises(ConfigError, match="compares the samples of one prompt, so group_size must be at least 2"):
        Algorithm(name="mine", advantage=reward_to_go, filter=part, group_size=1, **PLAIN)


def test_a_filter_by_the_score_of_each_may_go_with_prompts_sampled_once():
    assert Algorithm(name="mine", advantage=reward_to_go, filter=filters.accuracy_band, group_size=1, **PLAIN)


def test_an_estimator_over_groups_with_prompts_sampled_once(experiment):
    with pytest.raises(ConfigError, match=r"group_norm compares the samples of one prompt"):
        experiment("algorithm.group_size=1")
    assert experiment("algorithm.group_size=1", "advantage=reward_to_go").algorithm.group_size == 1


def test_a_preset_samples_a_prompt_as_often_as_its_estimator_needs_unless_told(experiment):
    chosen = "algorithm=verl-0.9/"
    assert experiment(chosen + "grpo").algorithm.group_size == 2
    assert experiment(chosen + "grpo", "algorithm.n=5").algorithm.group_size == 5
    assert experiment(chosen + "gae").algorithm.group_size == 1
    assert experiment(chosen + "gae", "algorithm.n=1").algorithm.group_size == 1
    with pytest.raises(ConfigError, match="group_size must be a whole number of at least 1, got 0"):
        experiment(chosen + "gae", "algorithm.n=0")


# -- KL in the loss and in the reward


def test_kl_may_be_in_the_loss_and_in_the_reward_each_with_its_coefficient(experiment):
    made = experiment(*KL[:3], "algorithm.kl_in_reward_coefficient=0.2").algorithm
    assert (made.kl, made.kl_in_reward) == (k3, k1)
    assert (made.kl_coefficient, made.initial) == (0.1, {"kl_in_reward_coefficient": 0.2})
    both = ("algorithm=verl-0.9/grpo", "algorithm.kl_loss_coef=0.1", "algorithm.kl_coef=0.1")
    assert experiment(*both).algorithm.kl_in_reward is not None


def test_a_controller_changes_the_coefficient_of_the_kl_that_the_algorithm_has(experiment):
    """U36: a controller could not change the coefficient of the KL in the loss, nor be given another estimator."""
    chosen = "controller=adaptive_kl"
    in_loss = experiment(*KL[:2], chosen, "controller.estimator=k3").algorithm
    assert in_loss.initial == {"kl_in_reward_coefficient": 0.0, "kl_coefficient": 0.1}
    plan = in_loss.graph().resolve()
    assert {"kl_coefficient"} == {c for c in plan.carried if c.startswith("kl")}
    update = next(node.call for node in plan.nodes if node.view == "update")
    assert [term.coefficient for term in update.terms] == [1.0, "kl_coefficient"]
    assert plan.nodes[-1].writes == ("kl_coefficient",)
    assert options(in_loss.controller)["estimator"].default is k3
    in_reward = experiment(*KL[2:], chosen).algorithm.graph().resolve()
    assert in_reward.nodes[-1].writes == ("kl_in_reward_coefficient",)
    both = experiment(*KL, chosen).algorithm
    assert both.controlled == "kl_in_reward_coefficient"


def test_a_controller_without_a_kl_penalty(experiment):
    with pytest.raises(ConfigError, match=r"adaptive_kl adapts .* has none\. Add kl_in_reward=k1, .* remove the contr"):
        experiment("controller=adaptive_kl")


# -- options that count for nothing in the chosen mode


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("advantage.scale_by_std=false", "advantage.epsilon=0.1"), "epsilon=0.1 has no effect in group_norm"),
        (("advantage=norm", "advantage.scale=none", "advantage.bessel=false"), "only where scale is group or batch"),
        (("advantage=leave_one_out", "advantage.epsilon=0.1"), "scale_by_std=false"),
        (("algorithm=otb", "advantage.zero_tail=false", "advantage.tail_from=mask"), "counts only where zero_tail"),
        (("advantage=weighted_sum", "advantage.second_weight=2"), "second=null"),
        (("filter=score_resampling", "filter.by=extremes", "filter.power=3"), "only where by is power"),
        (("advantage=[group_norm,whiten]", "advantage.group_norm.scale_by_std=false",
          "advantage.group_norm.epsilon=1"), "no effect in group_norm"),
    ],
)  # fmt: skip
def test_an_option_without_effect_in_the_chosen_mode(experiment, overrides, said):
    with pytest.raises(ConfigError, match=said):
        experiment(*overrides)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ("advantage=[group_norm,group_norm]", r"group_norm has no effect: group_norm replaces advantage and nothing"),
        ("advantage=[group_norm,whiten,leave_one_out]", r"group_norm has no effect: leave_one_out replaces advantage"),
        ("correction=[bypass,bypass]", r"bypass has no effect: bypass replaces old_logprob"),
        ("correction=[truncated,bypass]", None),
        ("correction=[bypass,truncated]", r"truncated has no effect after bypass, which makes old_logprob of what it"),
        ("correction=[bypass,rejected]", r"rejected has no effect after bypass"),
        ("correction=[truncated,truncated]", None),
        ("correction=[truncated,normalized,rejected]", None),
        ("advantage=[group_norm,whiten,whiten]", None),
    ],
)
def test_a_step_of_a_list_that_the_next_undoes(experiment, overrides, said):
    if said is None:
        assert experiment(overrides)
    else:
        with pytest.raises(ConfigError, match=said):
            experiment(overrides)


def test_a_critic_does_not_save_an_estimator_that_the_policy_never_hears(experiment):
    with pytest.raises(ConfigError, match="gae has no effect: group_norm replaces advantage"):
        experiment("advantage=[gae,group_norm]", "value_loss=value_clipped", "value_reduction=token_mean")


def test_what_a_list_makes_of_a_column_may_be_read_beside_news(experiment, install):
    class Weight(NamedTuple):
        weight: torch.Tensor

    def first(old_logprob, rollout_logprob, kept_logmass, mask) -> Weight: ...

    def by_entropy(old_logprob, rollout_logprob, kept_logmass, old_entropy) -> Weight: ...

    install("acme", {("correction", "first"): first, ("correction", "by_entropy"): by_entropy})
    assert experiment("correction=[first,truncated]")
    assert experiment("correction=[bypass,by_entropy]")
    with pytest.raises(ConfigError, match="first has no effect after bypass"):
        experiment("correction=[bypass,first]")


def test_what_an_algorithm_comes_with_may_stand_beside_a_mode_that_makes_no_use_of_it(experiment, tmp_path):
    made = experiment("algorithm=trl-1.16/grpo", "advantage.scale=none")
    (tmp_path / "run.yaml").write_text(to_yaml(made.resolved))
    assert load([], tmp_path / "run.yaml").resolved == made.resolved
    assert experiment("advantage.scale_by_std=false", "advantage.epsilon=1e-6")
    assert experiment("advantage.epsilon=0.1")
    assert experiment("filter=score_resampling", "filter.power=3")


# -- what the sampler says


class Mute(Sampler):
    """A sampler that cannot tell how much of the distribution it kept."""

    reports_kept_logmass = False
    version = 0

    def __init__(self, model):
        raise AssertionError("nothing is started")

    async def sample(self, request):
        raise AssertionError("nothing is drawn")

    def update_weights(self, weights, version):
        raise AssertionError("nothing is handed over")


def test_a_correction_under_top_p_needs_the_kept_mass():
    algorithm = Algorithm(name="mine", advantage=group_norm, group_size=2, correction=corrections.truncated, **PLAIN)
    said = r"correction compares .* under sampling.top_p=0.9 .* sampler Mute does not report the mass"
    with pytest.raises(ConfigError, match=said):
        check(algorithm=algorithm, sampler=Mute, sampling={"top_p": 0.9})
    with pytest.raises(ConfigError, match=r"sampling.top_k=5, sampling.min_p=0.1"):
        check(algorithm=algorithm, sampler=Mute, sampling={"top_k": 5, "min_p": 0.1})
    assert check(algorithm=algorithm, sampler=Mute)
    assert check(algorithm=algorithm, sampling={"top_p": 0.9}), "the embedded sampler reports it"
    assert check(sampler=Mute, sampling={"top_p": 0.9}), "nothing compares"


def test_a_sampler_that_only_its_start_can_tell_is_asked_then():
    parts = {"advantage": group_norm, "loss": clipped, "reduction": token_mean}
    plan = Algorithm(name="mine", correction=corrections.bypass, **parts).graph().resolve()
    started = Mute.__new__(Mute)
    with pytest.raises(ConfigError, match="correction compares"):
        check_kept_mass(plan, Sampling(top_p=0.5), started)
    check_kept_mass(plan, Sampling(top_p=0.5), lambda model: started)


def test_a_correction_of_rows_that_no_sampler_drew_is_a_gap():
    """Rows of a data set have no log-probabilities of a sampler."""
    rows = ("tokens", "length", "sampled", "mask", "old_logprob", "advantage", "group")
    graph = Graph(
        (
            Node(name="prompts", kind="prompts", reads=()),
            Node(name="given", kind="shaping", call=len, reads=("data.prompt",), writes=rows),
            Node(corrections.truncated, name="correction", kind="correction"),
            Node(Update((Term(policy_gradient, token_mean),)), name="update", kind="update", role="trainer"),
        )
    )
    with pytest.raises(GraphError, match=r"'correction' reads 'rollout_logprob' .*no node writes it.* rollout"):
        graph.resolve()


# -- what the dry step finds


def per_row(logprob, advantage, mask):
    """A loss of one value per row."""
    return -(logprob * advantage * mask).sum(1)


def of_values(new_value, mask):
    """A loss that reads what only a critic's head gives."""
    return new_value * mask


def test_a_loss_per_row_with_a_reduction_over_tokens():
    parts = {"name": "mine", "advantage": group_norm, "group_size": 2, "loss": per_row}
    with pytest.raises(
        ComponentError, match=r"one value per row \[B\] was given token weights.*reduction that returns"
    ):
        check(algorithm=Algorithm(**parts, reduction=token_mean))
    assert check(algorithm=Algorithm(**parts, reduction=sequence_mean_token_mean))


def test_a_term_that_needs_a_readout_which_the_trainer_lacks():
    algorithm = Algorithm(
        name="mine", advantage=group_norm, group_size=2, terms=(Term(of_values, token_mean),), **PLAIN
    )
    with pytest.raises(UnknownNameError, match=r"unknown readout of this trainer 'value'.*Known: .*logprob"):
        check(algorithm=algorithm)
    assert check(algorithm=rloo(group_size=2))


def test_bounds_the_wrong_way_round():
    part = bind(corrections.rejected, measure="k3", low=0.5, high=1.0)
    algorithm = Algorithm(name="mine", advantage=group_norm, group_size=2, correction=part, **PLAIN)
    with pytest.raises(ConfigError, match="low=0.5 has no effect with measure='k3'"):
        check(algorithm=algorithm)


def test_a_filter_that_draws_rows_again_tears_groups():
    check(algorithm=replace(grpo(group_size=4), filter=filters.score_resampling))


# -- what is written into a notebook


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"algorithm": {"name": "grpo"}}, r"or call what makes it: algorithm=grpo\(group_size=8\)"),
        ({"group_size": 4}, r"group_size is a number of the algorithm: algorithm=grpo\(group_size=4\)"),
        ({"temperature": 0.5}, r"It may stand in sampling or eval: sampling=\{'temperature': \.\.\.\}"),
        ({"eval": 5}, r"eval=5: expected a dict of settings, such as eval=\{'every': \.\.\.\}; it has: every, data"),
        ({"run": "mine"}, r"run='mine': expected a dict of settings, such as run=\{'name': \.\.\.\}"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0: it must be greater than or equal to 0"),
        ({"data": ["1+1"]}, r"row 0 of data is '1\+1'; a row is a dict: \{'prompt'"),
        ({"data": [{"prompt": "1"}, {"question": "1"}]}, "row 1 of data has no 'prompt'; it has: question"),
        ({"data": {"prompt": ["1"], "target": ["1"]}}, "data is a dict of columns; rows are a list of dicts"),
        ({"reward": [digits, digits]}, "nor something to call; to combine several: reward={name: weighted"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_slip_in_python_is_answered_with_what_to_type(parts, said):
    with pytest.raises(ConfigError, match=said):
        check(**parts)


def test_a_name_or_a_list_in_a_slot_is_answered_with_what_stands_there():
    with pytest.raises(ConfigError, match=r"advantage='gae' is str; .* rlcore.get\('advantage', 'gae'\)"):
        replace(grpo(), advantage="gae")
    with pytest.raises(ConfigError, match="is list; several stand in a tuple"):
        replace(grpo(), advantage=[group_norm, group_norm])
    with pytest.raises(ConfigError, match=r"bind takes a function, and got 'group_norm': bind\(rlcore.get"):
        bind("group_norm", epsilon=1.0)
    with pytest.raises(ComponentError, match="group_norm: reward is list; expected a tensor"):
        group_norm([1.0], torch.tensor([0]))
    with pytest.raises(UnknownNameError, match="metric 'score': no step is done yet"):
        Run(algorithm="grpo", model="hf:no/model", data=[{"prompt": "1"}], reward=digits).history.column("score")


# -- numbers that train nothing


def no_model(advantage, mask):
    return advantage.expand_as(mask) * 1.0


def cut_off(logprob, advantage, mask):
    return -logprob.detach() * advantage * mask


def averaged(logprob, advantage, mask):
    return -(logprob * advantage * mask).sum() / mask.sum()


def a_number(logprob):
    return float(logprob.sum())


def averaged_estimate(reward):
    return reward.mean()


def whole_numbers(logprob, mask):
    return logprob.long()


def infinite(logprob, mask):
    return logprob / 0


def complex_estimate(reward):
    return reward + 1j


def endless_estimate(reward):
    return reward / 0


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"loss": no_model}, "'no_model' has no gradient, .* reads none of the columns .* such as entropy or logprob"),
        ({"loss": cut_off}, r"'cut_off' has no gradient, .* reads logprob, but .* cut off .*: look for .detach\(\)"),
        (
            {"loss": averaged},
            r"'averaged' returned \(\), a single number; .* without mean\(\) .*\(reduction '\w+' here",
        ),
        ({"loss": a_number}, "'a_number' returned float, a single number; .* the reduction weighs them"),
        ({"advantage": averaged_estimate}, r"'advantage' is \(\); expected a tensor with a value for each row, \[4\]"),
        ({"loss": whole_numbers}, "'whole_numbers' returned torch.int64; expected floating-point"),
        ({"loss": infinite}, "'infinite' gave .* on finite made-up rows"),
        ({"advantage": complex_estimate}, "'advantage' as torch.complex64; expected real numbers"),
        ({"advantage": endless_estimate}, "node 'advantage' gave 'advantage' with NaN or infinity"),
    ],
)
def test_numbers_that_train_nothing_are_refused(part, said):
    with pytest.raises(ComponentError, match=said):
        check(algorithm=replace(grpo(group_size=2), **part))
