"""Metrics, rows and the line of a step hang on kinds and roles: a graph may call its nodes what it likes."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from rlcore.metrics import is_measured
from rlcore.tracking.console import Console
from rlcore_algorithms import grpo, ppo
from tests.run import small

OTHER = {"rollout": "talk", "update": "learn", "reward": "judge", "prompts": "questions", "advantage": "worth"}


@dataclass(frozen=True)
class Renamed:
    """An algorithm whose graph gives every node another name."""

    algorithm: Any
    name: str = "renamed"

    def __getattr__(self, attribute):
        return getattr(object.__getattribute__(self, "algorithm"), attribute)

    def graph(self, **given):
        graph = self.algorithm.graph(**given)
        return replace(graph, nodes=tuple(replace(n, name=OTHER.get(n.name, f"my_{n.name}")) for n in graph.nodes))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small.save_model(tmp_path_factory.mktemp("model") / "tiny")


def numbers(run):
    """The metrics of each step, those of nodes without the node's name."""
    prefixes = {n.name for n in run.graph.nodes}
    return [
        {(k.partition("/")[2] if k.partition("/")[0] in prefixes - {"reward"} else k): v
         for k, v in row.items() if not is_measured(k)}
        for row in run.history
    ]  # fmt: skip


@pytest.mark.parametrize("algorithm", [replace(grpo(group_size=2), kl=None), ppo(group_size=2)], ids=lambda a: a.name)
def test_a_graph_with_other_names_trains_and_reports_alike(model, tmp_path, algorithm):
    usual = small.make(model, tmp_path, name="usual", algorithm=algorithm).train()
    other = small.make(model, tmp_path, name="other", algorithm=Renamed(algorithm)).train()
    assert "policy/kl" in usual.history[-1]
    assert [row["policy/kl"] for row in other.history] == [row["policy/kl"] for row in usual.history]
    # The order of minibatches is drawn from the step's seed and the node's name.
    if algorithm.minibatches == 1:
        assert [row["score"] for row in other.history] == [row["score"] for row in usual.history]
        assert small.read(other.folder / "rollouts.jsonl") == small.read(usual.folder / "rollouts.jsonl")
    assert all("speed/rollout_tokens_per_second" in row for row in other.history)
    assert len(numbers(other)[0]) == len(numbers(usual)[0])


def test_the_console_finds_metrics_of_a_node_whatever_it_is_called(capsys):
    for node in ("update", "learn"):
        Console().log(3, {"score": 0.5, f"{node}/entropy": 1.25, f"{node}/loss": 0.75})
        line = capsys.readouterr().err
        assert "score 0.5" in line
        assert "entropy 1.25" in line
        assert "loss" not in line
        Console().log(3, {f"{node}/loss": 0.75})
        assert "loss 0.75" in capsys.readouterr().err
        Console(show=("loss",)).log(3, {"score": 0.5, f"{node}/loss": 0.75})
        assert "loss 0.75" in capsys.readouterr().err
