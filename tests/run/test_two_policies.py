"""Two policies in one graph: each with a sampler, an environment, a reward and rows of its own."""

import shutil
from dataclasses import dataclass

import pytest
import torch
from safetensors.torch import load_file

from rlcore.errors import GraphError, RLCoreError
from rlcore.protocols import TurnEnvironment
from rlcore_algorithms import grpo, reinforce_pp_baseline
from tests.run import small


def letters(completion):
    return sum(c.isalpha() for c in completion) / max(len(completion), 1)


letters.bounded = True


class Backwards(TurnEnvironment):
    """Begins with the prompt written backwards."""

    def begin(self, row):
        return row["prompt"][::-1]

    def reply(self, row, turns):
        return None


@dataclass
class Both:
    """One policy is rewarded for digits, the other for letters after prompts that are written backwards."""

    one: object = grpo(group_size=2)
    other: object = reinforce_pp_baseline(group_size=2)
    name: str = "both"
    group_size: int = 2
    minibatches: int = 1

    @property
    def initial(self):
        return self.one.initial

    def graph(self, *, reward, environment, table):
        first = self.one.graph(reward=reward, environment=environment, table=table)
        return first.beside(self.other.graph(reward=letters, environment=Backwards, table=table), "b")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small.save_model(tmp_path_factory.mktemp("model") / "m")


def weights(folder):
    return load_file(next(folder.glob("*.safetensors")))


def trained(model, where, name="run", **settings):
    run = small.make(model, where, algorithm=Both(), name=name, **settings).train()
    return run, run.folder


@pytest.fixture(scope="module")
def both(model, tmp_path_factory):
    return trained(model, tmp_path_factory.mktemp("both"), save={"every": 1, "keep": 5})


def own(row):
    return {name: value for name, value in row.items() if not name.startswith("b/")}


def test_each_policy_is_trained_on_its_own_rows_by_its_own_reward(both, model):
    run, folder = both
    rows = small.read(folder / "rollouts.jsonl")
    of_b = [row for row in rows if row.get("policy") == "b"]
    of_first = [row for row in rows if "policy" not in row]
    assert len(of_b) == len(of_first) == 3 * 2 * 2
    # The same questions, but the other environment writes them backwards; digits for one, letters for the other.
    assert sum(row["score"] for row in of_b) != sum(row["score"] for row in of_first)
    assert all(row["score"] == pytest.approx(letters(row["completion"])) for row in of_b)
    assert all(row["score"] == pytest.approx(small.digits(row["completion"], "")) for row in of_first)
    begun, one, other = weights(model), weights(folder / "model"), weights(folder / "model_b")
    for which in (one, other):
        assert any(not torch.equal(begun[name], which[name]) for name in begun)
    assert any(not torch.equal(one[name], other[name]) for name in one)
    assert run.summary["groups"] == {"drawn": 12, "trained": 12, "waiting": 0, "dropped": {}}


def test_the_first_policy_is_what_it_is_alone(both, model, tmp_path):
    _, folder = both
    alone = small.make(model, tmp_path, save={"every": 1, "keep": 5}).train()
    assert [own(row) for row in small.metrics(folder)] == small.metrics(alone.folder)
    one, two = weights(folder / "model"), weights(alone.folder / "model")
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    "settings", [{"max_weight_age": 1, "execution": {"deterministic": True}}, {}], ids=["ahead", "in turn"]
)
def test_a_resumed_run_equals_the_whole_one(settings, model, tmp_path):
    settings |= {"save": {"every": 1, "keep": 5}}
    _, whole = trained(model, tmp_path, "whole", **settings)
    _, cut = trained(model, tmp_path, "cut", **settings)
    shutil.rmtree(cut / "checkpoints" / "step_3")
    for name in ("model", "model_b"):
        shutil.rmtree(cut / name)
    trained(model, tmp_path, resume=str(cut), **settings)
    small.assert_equal_runs(whole, cut)


@pytest.mark.slow
def test_roles_have_models_and_processes_of_their_own(both, tmp_path, model):
    _, local = both
    apart = {"sampler_b": {"execution": "process"}, "b": {"execution": "process"}}
    _, folder = trained(model, tmp_path, save={"every": 1, "keep": 5}, roles=apart)
    assert small.metrics(folder) == small.metrics(local)
    one, two = weights(local / "model_b"), weights(folder / "model_b")
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_role_of_the_second_policy_has_a_model_and_a_rate_of_its_own(tmp_path, model):
    other = small.save_model(tmp_path / "other", seed=5)
    _, folder = trained(model, tmp_path, roles={"b": {"model": str(other), "learning_rate": 1e-30}})
    one, two = weights(other), weights(folder / "model_b")
    assert all(torch.allclose(one[name], two[name], atol=1e-20) for name in one)
    assert small.metrics(folder)[-1]["b/update/learning_rate"] == 1e-30


def test_what_does_not_fit_is_said(model, tmp_path):
    graph = grpo(group_size=2).graph()
    for name in ("trainer", "", "sampler"):
        with pytest.raises(GraphError, match="name of its own"):
            graph.beside(grpo(group_size=2).graph(), name)
    two = graph.beside(grpo(group_size=2).graph(), "b")
    with pytest.raises(GraphError, match="one by one"):
        graph.beside(two, "c")
    assert two.beside(graph, "c").policies == ("", "b", "c")
    with pytest.raises(RLCoreError, match=r"unknown setting 'roles.b.rate'; known: model, learning_rate, "):
        small.make(model, tmp_path, algorithm=Both(), roles={"b": {"rate": 1.0}})
    with pytest.raises(RLCoreError, match=r"roles.c: the graph has no such role"):
        small.make(model, tmp_path, algorithm=Both(), roles={"c": {"learning_rate": 1.0}})


def test_nodes_of_a_policy_are_found_by_its_name():
    graph = grpo(group_size=2).graph()
    two = graph.beside(graph, "b")
    assert {n.name for n in two.drop("b/update").of_policy("b").nodes} == {n.name for n in graph.nodes} - {"update"}
    assert two.resolve().roles == ("b", "sampler", "sampler_b", "trainer")
    assert two.of_policy("").resolve().show() == graph.resolve().show().replace("grpo ", "grpo and grpo (b) ")
    assert ">" not in "".join(line for line in two.show().splitlines()[:-1])


@pytest.mark.parametrize(
    "name", ["a b", "a/b", "..", "ü", "a\nb", "complete", "x" * 61, "update", "eval", "seconds", "1st"]
)
def test_a_policy_whose_name_could_name_no_folder_or_is_anothers_is_refused_at_once(name):
    graph = grpo(group_size=2).graph()
    with pytest.raises(GraphError, match="names folders and metrics: 1 to 60 letters"):
        graph.beside(grpo(group_size=2).graph(), name)
