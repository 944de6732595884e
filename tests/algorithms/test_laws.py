"""Every law of a kind, over every component of that kind that the shelf registers."""

import pytest

import rlcore_algorithms
from rlcore.component import check
from rlcore.registry import Add, Plugin
from tests.algorithms.laws import LAWS, applies

ADDED = Add(Plugin("shelf", "rlcore_algorithms", "", ""))
rlcore_algorithms.register(ADDED)

CASES = [
    pytest.param(law, entry.thing, id=f"{entry.kind}-{entry.name}-{law.__name__}")
    for entry in ADDED.entries
    for law in LAWS.get(entry.kind, ())
    if applies(law, entry.thing)
]


@pytest.mark.parametrize(("law", "component"), CASES)
def test_every_registered_component_keeps_every_law(law, component):
    law(component)


@pytest.mark.parametrize(
    "entry", [e for e in ADDED.entries if e.kind != "algorithm"], ids=lambda e: f"{e.kind}-{e.name}"
)
def test_every_registered_component_has_a_signature_that_can_be_bound(entry):
    check(entry.kind, entry.thing)


def test_the_shelf_offers_what_it_promises():
    names = {kind: {e.name for e in ADDED.entries if e.kind == kind} for kind in {e.kind for e in ADDED.entries}}
    assert {e.__name__ for e in rlcore_algorithms.advantages.ALL} == names["advantage"]
    assert {"gae", "group_norm", "leave_one_out", "reward_to_go", "token_baseline", "whiten"} <= names["advantage"]
    assert names["filter"] == {"accuracy_band", "dynamic_sampling", "score_resampling"}
    assert names["shaping"] == {"duplicate_mask", "overlong_mask", "soft_overlong", "weighted_parts"}
    assert set(rlcore_algorithms.losses.ALL) == names["loss"]
    assert {"clipped", "gspo", "cispo", "sapo", "gmpo", "vespo", "dro", "dppo_tv", "dppo_kl", "gpg"} <= names["loss"]
    assert {"policy_gradient", "decoupled", "kl_cov", "positive_nll", "value_clipped", "nll"} <= names["loss"]
    assert names["select"] >= {"clip_cov", "kl_cov", "m2po", "opsm", "top_entropy"}
    assert names["reduction"] == {
        "token_mean",
        "sequence_mean_token_mean",
        "sequence_mean_token_sum",
        "constant",
        "prompt_mean",
        "token_sum",
    }
    assert names["kl"] >= {"k1", "k2", "k3", "abs", "k1_straight_through", "k3_straight_through", "k3_unbiased"}
    assert names["correction"] >= {"truncated", "icepop", "rejected", "normalized", "bypass", "measured"}
    assert {"gspo", "cispo", "sapo", "gmpo", "luspo", "vespo", "dppo", "clip_cov", "kl_cov"} <= names["algorithm"]
    assert {"ppo", "grpo", "rloo", "reinforce_pp", "dapo", "dr_grpo"} <= names["algorithm"]
    assert {"gdpo", "gpg", "lite_ppo", "maxrl", "opo", "otb", "reinforce_pp_baseline", "remax"} <= names["algorithm"]
