"""The named algorithms: what each is made of, what it loads, and what its options reach."""

from dataclasses import replace

import pytest

from rlcore.algorithm import Algorithm
from rlcore.component import name_of, options
from rlcore_algorithms import dapo, dr_grpo, grpo, ppo, reinforce_pp, rloo
from rlcore_algorithms.controllers import adaptive_kl

ALGORITHMS = (dapo, dr_grpo, grpo, ppo, reinforce_pp, rloo)


def parts(algorithm):
    """Names of the advantage chain, the loss and the reduction."""
    return [name_of(part) for part in (*algorithm.chain, algorithm.loss, algorithm.reduction)]


def value(component, option):
    return options(component)[option].default


@pytest.mark.parametrize("factory", ALGORITHMS, ids=lambda f: f.__name__)
def test_a_factory_has_keyword_options_only_and_its_name(factory):
    algorithm = factory()
    assert isinstance(algorithm, Algorithm)
    assert algorithm.name == factory.__name__
    assert all(option.default is not ... for option in options(factory).values())
    with pytest.raises(TypeError):
        factory(4)


@pytest.mark.parametrize(
    ("algorithm", "roles"),
    [
        (grpo(), {"sampler", "trainer"}),
        (grpo(kl_coefficient=0.001), {"reference", "sampler", "trainer"}),
        (dapo(), {"sampler", "trainer"}),
        (dr_grpo(), {"sampler", "trainer"}),
        (rloo(), {"sampler", "trainer"}),
        (rloo(kl_in_reward_coefficient=0.05), {"reference", "sampler", "trainer"}),
        (reinforce_pp(kl_in_reward_coefficient=0.01), {"reference", "sampler", "trainer"}),
        (ppo(), {"critic", "sampler", "trainer"}),
        (ppo(kl_in_reward_coefficient=0.01), {"critic", "reference", "sampler", "trainer"}),
    ],
    ids=lambda x: x.name if isinstance(x, Algorithm) else "",
)
def test_an_algorithm_loads_the_models_that_it_reads_and_no_other(algorithm, roles):
    assert set(algorithm.graph().resolve().roles) == roles


def test_each_algorithm_is_made_of_what_its_paper_says():
    assert parts(grpo()) == ["group_norm", "clipped", "sequence_mean_token_mean"]
    assert parts(dr_grpo()) == ["group_norm", "clipped", "constant"]
    assert parts(dapo()) == ["group_norm", "clipped", "token_mean"]
    assert parts(rloo()) == ["leave_one_out", "policy_gradient", "sequence_mean_token_sum"]
    assert parts(reinforce_pp()) == ["reward_to_go", "whiten", "clipped", "token_mean"]
    assert parts(ppo()) == ["gae", "whiten", "clipped", "token_mean"]
    assert name_of(ppo().value_loss) == "value_clipped"
    assert name_of(dapo().filter) == "dynamic_sampling"


def test_options_of_a_factory_reach_the_part_that_they_speak_of():
    assert value(dr_grpo().advantage, "scale_by_std") is False
    assert value(dr_grpo(length=77).reduction, "length") == 77
    assert (value(dapo().loss, "clip_low"), value(dapo().loss, "clip_high")) == (0.2, 0.28)
    assert value(grpo(clip=0.1).loss, "clip_high") == 0.1
    assert value(ppo(lam=0.95).chain[0], "lam") == 0.95
    assert value(ppo(value_clip=None).value_loss, "clip") is None
    assert grpo(kl_coefficient=0.04).kl_coefficient == 0.04
    assert rloo(kl_in_reward_coefficient=0.05).initial == {"kl_in_reward_coefficient": 0.05}


def test_a_controller_takes_over_the_price_of_kl_in_the_reward():
    plan = replace(rloo(kl_in_reward_coefficient=0.05), controller=adaptive_kl).graph().resolve()
    assert "kl_in_reward_coefficient" in plan.carried
    assert plan.nodes[-1].name == "controller"
