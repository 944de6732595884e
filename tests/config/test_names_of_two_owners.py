"""Names that a stranger's package has too: defaults mean rlcore's own; who types a bare name is asked which."""

import pytest

from rlcore.component import name_of, source_of
from rlcore.config import load, to_yaml
from rlcore.errors import RegistryError
from rlcore.run import Run
from rlcore.testing import registered
from tests.run import small


def theirs(completion):
    """Everything is worth 1."""
    return 1.0


class Theirs:
    """No manager, sampler or optimizer of anybody."""


def register(add):
    add.reward("expression_answer", theirs)
    add.dataset("countdown", theirs)
    for kind, name in {
        "sampler": "embedded",
        "reward_manager": "default",
        "order": "shuffled",
        "trainer": "torch",
    }.items():
        getattr(add, kind)(name, Theirs)
    add.optimizer("adamw", theirs)
    add.advantage("group_norm", lambda reward: reward)


def test_u29_the_default_run_goes_on_beside_a_package_with_the_same_names():
    """It stopped, and so did every saved run."""
    alone = load([])
    with registered(register, distribution="acme"):
        beside = load([])
        assert source_of(beside.reward) is source_of(alone.reward)
        assert source_of(beside.sampler) is source_of(alone.sampler)
        assert beside.resolved["reward"]["name"] == "rlcore:expression_answer"
        assert beside.resolved["optimizer"]["name"] == "rlcore:adamw"
        assert beside.resolved["advantage"]["name"] == "rlcore:group_norm"
        with pytest.raises(RegistryError, match="say which: rlcore:expression_answer, acme:expression_answer"):
            load(["reward=expression_answer"])
        assert name_of(load(["reward=acme:expression_answer"]).reward) == "theirs"
    assert load([]).resolved == alone.resolved


def test_a_bare_name_among_the_options_of_a_saved_reward_is_our_own_too(tmp_path):
    file = tmp_path / "config.yaml"
    (tmp_path / "versions.json").write_text("{}")
    inner = {"answer": "expression_answer", "gate": {"name": "gated", "gate": "expression_answer", "reward": "math"}}
    file.write_text(to_yaml({"model": {"source": "tiny_countdown"}, "data": {"name": "countdown"},
                             "reward": {"name": "weighted", "components": inner}}))  # fmt: skip
    with registered(register, distribution="acme"):
        components = load([], file).resolved["reward"]["components"]
        assert components["answer"] == "rlcore:expression_answer"
        assert components["gate"]["gate"] == "rlcore:expression_answer"
        assert components["gate"]["reward"] == "math"


def test_the_defaults_of_a_run_in_python_are_our_own_too():
    with registered(register, distribution="acme"):
        run = Run(algorithm="grpo", model="nowhere", data=small.ROWS, reward=small.digits)
        assert run.experiment.sampler.__module__ == "rlcore.sample.embedded"
