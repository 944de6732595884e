import copy
import inspect
import pickle

import pytest

from rlcore import errors
from rlcore.errors import RLCoreError, counted, nearest, unknown

CHILDREN = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, RLCoreError) and value is not RLCoreError
]


@pytest.mark.parametrize("child", CHILDREN, ids=lambda child: child.__name__)
def test_an_error_survives_pickling_and_is_also_a_builtin(child):
    assert any(base in (LookupError, ValueError, TypeError, RuntimeError) for base in child.__mro__)
    for again in (pickle.loads(pickle.dumps(child("what was asked"))), copy.copy(child("what was asked"))):
        assert type(again) is child and str(again) == "what was asked"


def test_the_nearest_name_is_offered_only_where_one_is_near():
    assert nearest("gea", ["gae", "whiten"]) == " Did you mean 'gae'?"
    assert nearest("whitening", ["gae", "whiten"]) == " Did you mean 'whiten'?"
    assert nearest("gpro", ["gspo", "grpo"]) == " Did you mean 'grpo'?"
    assert nearest("zzz", ["gae", "whiten"]) == "" == nearest("x", [])


@pytest.mark.parametrize(
    ("name", "poor"), [("nosuch", "n"), ("lora", "floor"), ("brief", "prime"), ("unknown", "countdown"), ("", "n")]
)
def test_a_name_that_is_only_a_little_alike_is_not_offered(name, poor):
    assert nearest(name, [poor]) == ""


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("GRPO", "grpo"),
        ("temperature", "eval.temperature"),
        ("coefficient", "kl_coefficient"),
        ("learning_rte", "learning_rate"),
    ],
)
def test_a_name_in_other_letters_or_cut_short_is_recognised(name, meant):
    assert nearest(name, ["gae", "whiten", meant]) == f" Did you mean {meant!r}?"


def test_a_count_agrees_with_its_noun():
    assert [counted(number, "step") for number in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]


def test_an_unknown_name_lists_what_is_known():
    error = unknown("advantage", "gea", ["whiten", "gae"])
    assert str(error) == "unknown advantage 'gea'. Did you mean 'gae'? Known: gae, whiten"
    assert isinstance(error, LookupError)
    assert "Known: none" in str(unknown("advantage", "gae", []))
