"""What people who know Hydra expect of it, and that whoever uses Hydra around a `load` finds it as it was."""

import logging
import threading
from pathlib import Path

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.version import VersionBase

from rlcore import ConfigError
from rlcore.component import name_of
from rlcore.config import load

BASE = {"model": "m", "data": "svamp", "reward": "numeric_answer"}


@pytest.fixture
def written(tmp_path):
    """Writes files below a folder; returns the experiment's."""

    def write(**files):
        for name, text in files.items():
            file = tmp_path / f"{name.replace('__', '/')}.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            base = "".join(f"{key}: {value}\n" for key, value in BASE.items()) if name == "run" else ""
            file.write_text(text + "\n" + base)
        return tmp_path / "run.yaml"

    return write


def clip_of(experiment):
    return experiment.resolved["loss"]["clip_low"], experiment.resolved["loss"]["clip_high"]


def test_a_list_of_defaults_takes_options_and_groups_of_ones_own(written):
    file = written(
        run="defaults: [loss: tight, recipe: small, advantage: [group_norm, whiten]]\nloss: {clip_high: 0.4}",
        loss__tight="{name: clipped, clip_low: 0.1}",
        recipe__small="# @package _global_\nsteps: 7\nfilter: dynamic_sampling\nsampling: {temperature: 0.5}",
        recipe__large="# @package _global_\nsteps: 70",
    )
    made = load([], file)
    assert (clip_of(made), made.settings.steps, made.settings.sampling.temperature) == ((0.1, 0.4), 7, 0.5)
    assert [name_of(part) for part in made.algorithm.chain] == ["group_norm", "whiten"]
    assert name_of(made.algorithm.filter) == "dynamic_sampling"
    other = load(["recipe=large", "loss=clipped"], file)
    assert (other.settings.steps, other.algorithm.filter, clip_of(other)) == (70, None, (0.2, 0.2))
    with pytest.raises(
        ConfigError, match="recipe=lage: there is no such file of yours; there are: large, small.*'large'"
    ):
        load(["recipe=lage"], file)


def test_options_of_a_folder_are_chosen_from_the_command_line(written, tmp_path):
    written(loss__tight="{name: clipped, clip_low: 0.1}", recipe__small="# @package _global_\nsteps: 7")
    line = [f"{key}={value}" for key, value in BASE.items()]
    made = load([*line, "loss=tight", "recipe=small", "loss.clip_high=0.3"], folders=[tmp_path])
    assert (clip_of(made), made.settings.steps) == ((0.1, 0.3), 7)


def test_another_algorithm_drops_what_the_file_said_of_the_first_ones_components(written):
    file = written(run="algorithm: dapo\nloss: {clip_low: 0.05}\nadvantage: {name: leave_one_out, keep_single: true}")
    assert clip_of(load([], file)) == (0.05, 0.28)
    other = load(["algorithm=grpo"], file)
    assert (clip_of(other), name_of(other.algorithm.advantage)) == ((0.2, 0.2), "group_norm")


def test_an_interpolation_of_a_file_follows_the_command_line(written, monkeypatch):
    monkeypatch.setenv("OF_THIS_TEST", "elsewhere")
    file = written(run='max_prompt_tokens: ${max_new_tokens}\nrun: {folder: "${oc.env:OF_THIS_TEST}/runs"}')
    made = load(["max_new_tokens=9"], file).settings
    assert (made.max_prompt_tokens, made.run.folder) == (9, "elsewhere/runs")


@pytest.mark.parametrize(
    ("override", "typed"),
    [
        ("sampling.stop=[<|im_end|>]", "'sampling.stop=[\"<|im_end|>\"]'"),
        ("sampling.stop=[a>b]", "'sampling.stop=[\"a>b\"]'"),
        ("reflection_phrases=[#1, b]", "'reflection_phrases=[\"#1\", b]'".replace(", b]", ', "b"]')),
    ],
)
def test_a_spelling_that_is_not_hydras_is_answered_with_what_to_type(experiment, override, typed):
    with pytest.raises(ConfigError) as caught:
        experiment(override)
    assert typed in str(caught.value)


def test_a_comma_says_the_three_ways(experiment):
    for override in ("seed=1,2", "sampling.stop=a,b", "algorithm=grpo,rloo"):
        with pytest.raises(ConfigError, match=r"add -m\. One text: .*\. A list: "):
            experiment(override)
    assert experiment("data.template=a,b").resolved["data"]["template"] == "a,b"


def test_trackers_have_options(experiment):
    made = experiment("tracker=[{name: console, every: 10}, jsonl]")
    assert [name_of(one) for one in made.services["tracker"]] == ["Console", "Jsonl"]
    assert made.resolved["tracker"][0]["every"] == 10
    assert experiment("tracker=null").services["tracker"] == ()


def test_load_works_inside_anybodys_hydra_and_leaves_it(experiment, tmp_path):
    (tmp_path / "theirs.yaml").write_text("a: 1\n")
    with hydra.initialize_config_dir(version_base="1.2", config_dir=str(tmp_path)):
        before = GlobalHydra.instance().hydra, VersionBase.instance().version_base
        experiment("algorithm=rloo", "data.template={x}")
        with pytest.raises(ConfigError):
            experiment("steps=${nothing}")
        assert (GlobalHydra.instance().hydra, VersionBase.instance().version_base) == before
        assert hydra.compose("theirs").a == 1


def test_load_works_in_threads_and_changes_neither_folder_nor_logging(experiment, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    handlers, found = list(logging.getLogger().handlers), {}

    def one(seed):
        found[seed] = experiment(f"seed={seed}", f"algorithm={'grpo' if seed % 2 else 'rloo'}")

    threads = [threading.Thread(target=one, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {seed: (m.settings.seed, m.algorithm.name) for seed, m in found.items()} == {
        seed: (seed, "grpo" if seed % 2 else "rloo") for seed in range(4)
    }
    assert (Path.cwd(), list(tmp_path.iterdir()), logging.getLogger().handlers) == (tmp_path, [], handlers)
