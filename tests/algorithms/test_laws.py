"""Every law over everything that the shelf registers, by registration alone; presets declare what their peer breaks."""

import pytest

import rlcore_algorithms
from rlcore.kinds import KINDS
from rlcore.registry import registry
from rlcore.testing import registered_checks
from rlcore.testing.kit import declared_failures, hold

CASES = [
    pytest.param(entry, name, run, id=f"{entry.kind}-{entry.name}-{name}")
    for entry, name, run in registered_checks("rlcore")
    if entry.kind != "reward"
]


@pytest.mark.parametrize(("entry", "name", "run"), CASES)
def test_everything_registered_keeps_every_law_but_those_it_declares(entry, name, run):
    hold(name, run, declared_failures(entry))


def test_only_presets_of_peers_declare_that_they_break_a_law():
    declaring = {name for name, broken in rlcore_algorithms.EXPECT_FAIL["algorithm"].items() if broken}
    assert declaring
    assert all("/" in name for name in declaring)
    assert rlcore_algorithms.EXPECT_FAIL.keys() == {"algorithm"}
    assert set(rlcore_algorithms.EXPECT_FAIL["algorithm"]) <= set(registry().names("algorithm"))


def test_the_shelf_offers_what_it_promises():
    names = {kind: set(registry().names(kind)) for kind in KINDS}
    assert {"gae", "group_norm", "leave_one_out", "reward_to_go", "token_baseline", "whiten"} <= names["advantage"]
    assert names["filter"] >= {"accuracy_band", "dynamic_sampling", "score_resampling"}
    assert names["shaping"] >= {"duplicate_mask", "overlong_mask", "soft_overlong", "weighted_components"}
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
    assert {"ppo", "grpo", "rloo", "reinforce_pp", "dapo", "dr_grpo", "prime"} <= names["algorithm"]
    assert {"gdpo", "gpg", "lite_ppo", "maxrl", "opo", "otb", "reinforce_pp_baseline", "remax"} <= names["algorithm"]
