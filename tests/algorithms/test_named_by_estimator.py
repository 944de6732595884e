"""Named algorithms that differ by how they estimate: what each is made of and loads, and what its options reach."""

import pytest

from rlcore.algorithm import Algorithm
from rlcore.component import name_of, options
from rlcore_algorithms import gdpo, gpg, lite_ppo, maxrl, opo, otb, reinforce_pp_baseline, remax

ALGORITHMS = (gdpo, gpg, lite_ppo, maxrl, opo, otb, reinforce_pp_baseline, remax)


def parts(algorithm):
    return [name_of(part) for part in (*algorithm.chain, algorithm.loss, algorithm.reduction)]


def value(component, option):
    return options(component)[option].default


@pytest.mark.parametrize("factory", ALGORITHMS, ids=lambda f: f.__name__)
def test_a_factory_has_keyword_options_only_and_its_name(factory):
    algorithm = factory()
    assert isinstance(algorithm, Algorithm)
    assert algorithm.name == factory.__name__
    with pytest.raises(TypeError):
        factory(4)


def test_each_algorithm_is_made_of_what_its_paper_says():
    assert parts(remax()) == ["greedy_baseline", "policy_gradient", "sequence_mean_token_sum"]
    assert parts(opo()) == ["length_weighted_baseline", "policy_gradient", "sequence_mean_token_sum"]
    assert parts(gpg()) == ["group_norm", "per_active_row", "policy_gradient", "token_mean"]
    assert parts(gdpo()) == ["components_norm", "whiten", "clipped", "sequence_mean_token_mean"]
    assert parts(lite_ppo()) == ["norm", "clipped", "token_mean"]
    assert parts(maxrl()) == ["mean_ratio", "policy_gradient", "sequence_mean_token_sum"]
    assert parts(otb()) == ["token_baseline", "clipped", "token_mean"]
    assert parts(reinforce_pp_baseline()) == ["group_norm", "whiten", "clipped", "token_mean"]


@pytest.mark.parametrize(
    ("algorithm", "roles"),
    [
        *[(factory(), {"sampler", "trainer"}) for factory in ALGORITHMS],
        (remax(kl_in_reward_coefficient=0.1), {"reference", "sampler", "trainer"}),
        (reinforce_pp_baseline(kl_coefficient=0.1), {"reference", "sampler", "trainer"}),
    ],
    ids=lambda x: x.name if isinstance(x, Algorithm) else "",
)
def test_an_algorithm_loads_the_models_that_it_reads_and_no_other(algorithm, roles):
    assert set(algorithm.graph().resolve().roles) == roles


def test_reading_the_greedy_reward_brings_in_the_greedy_rollout_and_nothing_else_does():
    drawn = {f.__name__: "greedy_rollout" in {n.name for n in f().graph().resolve().nodes} for f in ALGORITHMS}
    assert [name for name, greedy in drawn.items() if greedy] == ["remax"]


def test_the_token_baseline_asks_the_trainer_for_square_sums_before_the_update():
    plan = otb().graph().resolve()
    assert plan.wanted["old_logprob"] >= {"old_logprob", "old_square_sum"}
    assert "old_logprob" in {n.name for n in plan.learning_stage}


def test_options_of_a_factory_reach_the_part_that_they_speak_of():
    assert value(gdpo(weights=(1.0, 0.5)).chain[0], "weights") == (1.0, 0.5)
    assert value(gdpo().chain[1], "vote") == "row"
    assert value(gpg().chain[0], "scale_by_std") is False
    assert (value(lite_ppo().advantage, "center"), value(lite_ppo().advantage, "scale")) == ("group", "batch")
    assert value(otb(clip=0.1).loss, "clip_high") == 0.1
    assert remax(kl_in_reward_coefficient=0.1).initial == {"kl_in_reward_coefficient": 0.1}
    assert reinforce_pp_baseline(kl_coefficient=0.1).kl_coefficient == 0.1
    assert remax().group_size == 1
