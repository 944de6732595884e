"""What somebody named and the graph does not use is an error, on the command line, in a file and from Python."""

from dataclasses import dataclass, field, replace

import pytest

from rlcore import ConfigError, Run
from rlcore.algorithm import Algorithm
from rlcore.config import load, to_yaml
from rlcore.math import k1
from rlcore_algorithms import gdpo, grpo, ppo
from rlcore_algorithms.advantages import leave_one_out
from rlcore_algorithms.shaping import soft_overlong

ROWS = [{"prompt": "1", "target": "1"}] * 4


def digits(completion):
    """A score."""
    return float(completion.isdigit())


def run_of(algorithm, **settings):
    return Run(algorithm=algorithm, model="m", data=ROWS, reward=digits, prompts=2, quiet=True, **settings)


@pytest.mark.parametrize(
    "overrides",
    [
        ("algorithm=gdpo", "kl_in_reward=k1", "algorithm.kl_in_reward_coefficient=0.1"),
        ("algorithm=gdpo", "shaping=soft_overlong"),
        ("algorithm.kl_in_reward_coefficient=0.1",),
        ("algorithm.critic_warmup=3",),
    ],
)
def test_u35_a_component_that_the_graph_prunes_is_refused_on_the_command_line_and_in_a_file(
    experiment, overrides, tmp_path
):
    with pytest.raises(ConfigError, match="has no effect"):
        experiment(*overrides)
    tree = {"model": "m", "data": "svamp", "reward": "numeric_answer", **dict(o.split("=") for o in overrides)}
    tree = {key: float(value) if value[0].isdigit() else value for key, value in tree.items()}
    (tmp_path / "run.yaml").write_text(to_yaml(tree))
    with pytest.raises(ConfigError, match="has no effect|critic_warmup"):
        load([], tmp_path / "run.yaml")


@pytest.mark.parametrize(
    "make",
    [
        lambda: replace(grpo(), kl_in_reward_coefficient=0.1),
        lambda: replace(grpo(), critic_warmup=3),
        lambda: replace(grpo(), kl=k1),
        lambda: replace(gdpo(), kl_in_reward=k1, kl_in_reward_coefficient=0.1),
        lambda: replace(gdpo(), shaping=(soft_overlong,)),
    ],
)
def test_u35_from_python(make):
    with pytest.raises(ConfigError, match="has no effect"):
        run_of(make())


def test_what_an_algorithm_comes_with_was_set_by_nobody():
    assert run_of(replace(ppo(), advantage=leave_one_out, group_size=2))


# -- an experiment is anything with a graph()


@dataclass(frozen=True)
class Mine:
    """Somebody's own shape of training, which borrows a graph."""

    name: str = "mine"
    group_size: int = 2
    minibatches: int = 1
    strength: float = 1.0
    inner: Algorithm = field(default_factory=lambda: grpo(group_size=2))

    @property
    def initial(self):
        return self.inner.initial

    def graph(self, *, reward, environment, table):
        return self.inner.graph(reward=reward, environment=environment, table=table, title="mine")


def test_anything_with_a_graph_is_trained():
    assert run_of(Mine()).graph.title == "mine"
    assert run_of(Mine()).settings.prompts == 2


def test_what_lacks_something_is_told_what_it_lacks():
    with pytest.raises(ConfigError, match=r"lacks .*graph.* Did you mean grpo\(\)\?"):
        run_of(grpo)


def test_a_registered_factory_may_return_ones_own_dataclass(install, experiment):
    def mine(*, strength: float = 1.0):
        """A shape of training of one's own."""
        return Mine(strength=strength)

    install("acme", {("algorithm", "mine"): mine})
    assert experiment("algorithm=mine", "algorithm.strength=2").algorithm.strength == 2.0
    with pytest.raises(ConfigError, match="algorithm 'mine' has no slot loss"):
        experiment("algorithm=mine", "loss=nll")


# -- names of two distributions


def test_u29_defaults_and_saved_runs_mean_rlcores_own_beside_a_stranger_of_the_same_name(install, experiment, tmp_path):
    saved = experiment("advantage=group_norm")
    (tmp_path / "config.yaml").write_text(to_yaml(saved.config))
    (tmp_path / "versions.json").write_text("{}")

    def other(completion):
        """A stranger's reward."""
        return 0.0

    def estimate(reward, group):
        """A stranger's estimator."""
        return reward

    install("acme", {("reward", "expression_answer"): other, ("reward", "numeric_answer"): other,
                     ("advantage", "group_norm"): estimate, ("algorithm", "grpo"): grpo})  # fmt: skip
    assert load([]).resolved["reward"]["name"] == "rlcore:expression_answer"
    again = load([], tmp_path / "config.yaml")
    assert (again.resolved["reward"]["name"], again.resolved["advantage"]["name"]) == (
        "rlcore:numeric_answer",
        "rlcore:group_norm",
    )
    with pytest.raises(Exception, match="say which: "):
        load(["reward=numeric_answer"])
