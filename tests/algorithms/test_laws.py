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
    assert names["advantage"] == {"gae", "group_norm", "leave_one_out", "reward_to_go", "whiten"}
    assert {"clipped", "policy_gradient", "value_clipped", "nll"} <= names["loss"]
    assert names["reduction"] == {
        "token_mean",
        "sequence_mean_token_mean",
        "sequence_mean_token_sum",
        "constant",
        "prompt_mean",
    }
    assert names["kl"] == {"k1", "k2", "k3"}
    assert names["algorithm"] == {"ppo", "grpo", "rloo", "reinforce_pp", "dapo", "dr_grpo"}
