"""The kit tests itself: every broken thing is caught by the check that names its fault, and sound ones pass."""

import inspect
import math
from types import SimpleNamespace

import pytest

from rlcore.component import bind
from rlcore.errors import ConfigError, UnknownNameError
from rlcore.kinds import KINDS
from rlcore.protocols import Graded, RewardManager
from rlcore.registry import Plugin, Registry
from rlcore.testing import check, checks_of, conform, kit, registered_checks
from rlcore.testing.laws import LAWS
from rlcore_algorithms.advantages import gae, group_norm
from rlcore_envs.single_turn import SingleTurn
from rlcore_rewards.managers import DefaultManager
from tests.testing import broken_factories
from tests.testing.broken import SHELF as MATHEMATICAL
from tests.testing.broken import SOUND as STARTED
from tests.testing.broken import raw_for_singletons

SHELF, SOUND = MATHEMATICAL + broken_factories.SHELF, STARTED + broken_factories.SOUND

# The line that a stranger writes.
test_contract_of_an_estimator = conform("advantage", group_norm)
test_contract_of_a_broken_one = conform(
    "advantage",
    bind(group_norm, keep_single=True),
    expect_fail={"estimates_of_a_single_row_are_finite": "a group of one keeps its reward"},
)


@pytest.mark.parametrize(("kind", "thing", "name"), SHELF, ids=[f"{k}-{name}" for k, _, name in SHELF])
def test_a_fault_is_caught_by_the_check_that_names_it(kind, thing, name):
    found = {checked.name: checked for checked in check(kind, thing)}
    assert not found[name].ok, f"{name} lets it pass"
    assert found[name].message


def test_every_kind_has_a_broken_thing():
    assert {kind for kind, _, _ in SHELF} == set(KINDS) - {"algorithm"}


class OneReward(RewardManager):
    """Written from the protocol alone: one reward, whose failures stay with their rows."""

    def __init__(self, reward):
        self.reward = reward

    def score(self, samples):
        """Return one grade per sample."""
        return [self.grade(sample.completion) for sample in samples]

    def grade(self, completion):
        """Return a grade; None in place of a number is a score of NaN without an error."""
        try:
            value = self.reward(completion=completion)
            return Graded(math.nan if value is None else float(value))
        except Exception as error:
            return Graded(math.nan, error=repr(error))


@pytest.mark.parametrize(
    ("kind", "thing"),
    [
        *SOUND,
        ("reward_manager", OneReward),
        ("reward_manager", DefaultManager),
        ("environment", SingleTurn),
        ("environment", SingleTurn()),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_sound_things_pass(kind, thing):
    assert [checked for checked in check(kind, thing) if not checked.ok] == []


def test_a_declared_failure_that_holds_is_an_error():
    checks = checks_of("advantage", gae)
    name = "estimates_follow_the_rows"
    with pytest.raises(AssertionError, match=f"{name} is declared to fail .because. and holds"):
        kit.hold(name, checks[name], {name: "because"})


def test_a_failure_says_which_check_and_what_is_wrong():
    name = "estimates_of_a_single_row_are_finite"
    with pytest.raises(AssertionError, match=f"{name}: a group of one has nothing to be compared with"):
        kit.hold(name, checks_of("advantage", raw_for_singletons)[name], {})


def test_a_declared_failure_must_be_a_check():
    with pytest.raises(ConfigError, match="'estimates_folow', which is no check"):
        conform("advantage", gae, expect_fail={"estimates_folow": "x"})


def test_an_unknown_kind_is_an_error_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="advantage"):
        conform("advantages", gae)


@pytest.mark.parametrize("kind", LAWS)
def test_every_law_is_one_sentence(kind):
    for law in LAWS[kind]:
        assert inspect.getdoc(law).strip().endswith("."), law.__name__


def test_checks_speak_of_what_a_thing_reads():
    assert "group_names_mean_nothing" in checks_of("advantage", group_norm)
    assert "group_names_mean_nothing" not in checks_of("advantage", gae)


def test_all_that_a_distribution_registered_is_checked_but_what_it_declares_to_fail(monkeypatch):
    def register(add):
        add.advantage("raw", bind(group_norm, keep_single=True))

    module = SimpleNamespace(
        register=register,
        EXPECT_FAIL={"advantage": {"raw": {"estimates_of_a_single_row_are_finite": "keeps its reward"}}},
        __name__="acme",
    )
    made = Registry()
    made.load(Plugin("acme", "acme", "acme-dist", "1"), lambda: module)
    monkeypatch.setattr(kit, "registry", lambda: made)
    checks = list(registered_checks("acme-dist"))
    assert len(checks) == len(checks_of("advantage", group_norm))
    for entry, name, run in checks:
        kit.hold(name, run, kit.declared_failures(entry))
    module.EXPECT_FAIL["advantage"]["raw"].clear()
    entry, name, run = next(one for one in checks if "single_row" in one[1])
    with pytest.raises(AssertionError, match="compared"):
        kit.hold(name, run, kit.declared_failures(entry))
    assert list(registered_checks("another-dist")) == []
