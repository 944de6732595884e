"""Parts chosen and options set: choosing takes defaults, setting keeps the others."""

import types
import typing

import cloudpickle
import pytest

from rlcore import ConfigError, UnknownNameError, get, names
from rlcore.component import name_of, options
from rlcore.config import to_yaml
from rlcore.config.bind import Factory, changes
from rlcore.config.load import load, preset
from rlcore.config.specs import build, find_component, named_spec, spec_of

INNER = '''
from rlcore.component import Advantage

def plain(reward, group):
    """Nothing but the reward."""
    return reward

def halved(reward, group, *, inner: Advantage = plain, factor: float = 0.5, extra: dict[str, int] = {"a": 1}):
    """Another estimator's advantages, made smaller."""
    return factor * inner()
'''


def values_of(component):
    return {name: option.default for name, option in options(component).items()}


def test_an_algorithm_comes_with_what_its_factory_binds(experiment):
    made = experiment("algorithm=dapo", "algorithm.group_size=4").algorithm
    assert (made.name, made.group_size, name_of(made.filter)) == ("dapo", 4, "dynamic_sampling")
    assert (values_of(made.loss)["clip_low"], values_of(made.loss)["clip_high"]) == (0.2, 0.28)


def test_a_factory_option_reaches_the_part_that_it_feeds(experiment):
    assert values_of(experiment("algorithm.clip=0.3").algorithm.loss)["clip_low"] == 0.3


def test_choosing_a_part_takes_its_defaults(experiment):
    made = experiment("algorithm=dapo", "loss=clipped").algorithm
    assert values_of(made.loss)["clip_high"] == 0.2


def test_setting_an_option_keeps_the_others(experiment):
    made = experiment("algorithm=dapo", "loss.clip_low=0.1").algorithm
    assert (values_of(made.loss)["clip_low"], values_of(made.loss)["clip_high"]) == (0.1, 0.28)


def test_the_order_of_overrides_does_not_matter(experiment):
    one = experiment("advantage=leave_one_out", "advantage.keep_single=true").resolved
    assert one == experiment("advantage.keep_single=true", "advantage=leave_one_out").resolved


def test_the_last_of_two_overrides_counts(experiment):
    assert experiment("steps=3", "steps=4").settings.steps == 4
    assert name_of(experiment("loss=nll", "loss=policy_gradient").algorithm.loss) == "policy_gradient"


def test_a_chain_of_estimators(experiment):
    made = experiment(
        "algorithm=ppo", "advantage=[gae,whiten]", "advantage.lam=0.9", "advantage.gae.gamma=0.5"
    ).algorithm
    assert [name_of(part) for part in made.chain] == ["gae", "whiten"]
    assert values_of(made.chain[0]) == {"gamma": 0.5, "lam": 0.9}
    made = experiment("algorithm=ppo", "advantage=[{name: gae, lam: 0.9}, whiten]").algorithm
    assert values_of(made.chain[0])["lam"] == 0.9


def test_corrections_compose_as_a_list(experiment, tmp_path):
    made = experiment("correction=[truncated,icepop]", "correction.truncated.high=3")
    assert [name_of(part) for part in made.algorithm.corrections] == ["truncated", "icepop"]
    assert values_of(made.algorithm.corrections[0])["high"] == 3
    assert [node["name"] for node in made.resolved["correction"]] == ["truncated", "icepop"]
    assert {"correction_1", "correction_2"} <= made.components.keys()
    (tmp_path / "run.yaml").write_text(to_yaml(made.resolved))
    again = load([], tmp_path / "run.yaml")
    assert again.resolved == made.resolved
    assert {"correction", "correction_2"} <= {node.name for node in again.graph.resolve().nodes}


@pytest.mark.parametrize("written", ["truncated", "[truncated]"])
def test_one_correction_stands_alone(experiment, written):
    made = experiment(f"correction={written}").algorithm
    assert name_of(made.correction) == "truncated"
    assert experiment("correction=null").algorithm.correction is None


def test_a_part_with_several_names_is_written_under_the_one_that_it_is_bound_like(experiment):
    assert experiment("correction=sequence_mask").resolved["correction"]["name"] == "sequence_mask"
    assert [spec_of("correction", get("correction", name))["name"] for name in ("truncated", "k3_mask")] == [
        "truncated",
        "k3_mask",
    ]


def test_an_option_that_two_parts_of_a_chain_have_needs_the_name(experiment):
    with pytest.raises(ConfigError, match=r"advantage\.group_norm\.epsilon or advantage\.leave_one_out\.epsilon"):
        experiment("advantage=[group_norm,leave_one_out]", "advantage.epsilon=0.1")


def test_inner_parts_and_open_dictionaries(experiment, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(INNER)
    chosen = f"advantage={file}:halved"
    made = experiment(chosen, "advantage.inner={name: leave_one_out, epsilon: 0.5}", "advantage.factor=2").algorithm
    assert name_of(values_of(made.advantage)["inner"]) == "leave_one_out"
    assert values_of(values_of(made.advantage)["inner"])["epsilon"] == 0.5
    made = experiment(chosen, "advantage.inner=group_norm", "advantage.inner.scale_by_std=false").algorithm
    assert values_of(values_of(made.advantage)["inner"])["scale_by_std"] is False
    made = experiment(chosen, "+advantage.extra.b=2", "~advantage.extra.a").algorithm
    assert values_of(made.advantage)["extra"] == {"b": 2}
    with pytest.raises(ConfigError, match=r"no such key; there are: a"):
        experiment(chosen, "~advantage.extra.c")
    with pytest.raises(ConfigError, match=r"leave_one_out.* has no option 'epsilo'.*Did you mean 'epsilon'"):
        experiment(chosen, "advantage.inner={name: leave_one_out, epsilo: 0.5}")


def test_the_file_of_a_part_goes_round(experiment, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(INNER)
    resolved = experiment(f"advantage={file}:halved", "advantage.inner=leave_one_out").resolved
    assert resolved["advantage"]["inner"]["name"] == "leave_one_out"
    (tmp_path / "config.yaml").write_text(to_yaml(resolved))
    assert load([], tmp_path / "config.yaml").resolved == resolved


def test_kl_by_name_and_coefficient(experiment):
    made = experiment("algorithm=dapo", "kl=k3", "algorithm.kl_coefficient=0.001").algorithm
    assert (name_of(made.kl), made.kl_coefficient) == ("k3", 0.001)
    assert "reference" in made.graph().resolve().roles


def test_null_switches_a_part_off(experiment):
    assert experiment("algorithm=dapo", "filter=null").algorithm.filter is None
    with pytest.raises(UnknownNameError, match="To switch it off write null"):
        experiment("algorithm=dapo", "filter=none")
    with pytest.raises(ConfigError, match="an algorithm always has one"):
        experiment("loss=null")


def test_a_reward_from_a_file_and_of_a_distribution(experiment, tmp_path):
    file = tmp_path / "with space, and=sign.py"
    file.write_text("def mine(solution_str: str, ground_truth: str) -> float:\n    return 1.0\n")
    assert name_of(experiment(f"reward={file}:mine").reward) == "mine"
    assert name_of(experiment("reward=rlcore:exact_answer").reward) == "exact_answer"
    with pytest.raises(Exception, match="Did you mean 'mine'"):
        experiment(f"reward={file}:min")


def test_a_group_of_one_goes_with_an_estimator_that_needs_no_group(experiment):
    assert experiment("algorithm.group_size=1", "advantage=reward_to_go").algorithm.group_size == 1
    with pytest.raises(ConfigError, match="group_size must be at least 2"):
        experiment("algorithm.group_size=1")


def another(annotation, default):
    """A value of an option's type that is not its default."""
    members = (
        typing.get_args(annotation)
        if typing.get_origin(annotation) in (typing.Union, types.UnionType)
        else (annotation,)
    )
    for member in members:
        if typing.get_origin(member) is typing.Literal:
            return next(value for value in typing.get_args(member) if value != default)
        if member is bool:
            return not default
        if member in (int, float, str):
            return {int: 3, float: 0.125, str: "x"}[member]
    return None


def test_every_option_of_every_algorithm_is_reachable(experiment):
    for name in names("algorithm"):
        factory = Factory(name, find_component("algorithm", name, "algorithm"))
        for option in factory.options.values():
            value = another(option.annotation, option.default)
            if value is None:
                continue
            given, _, wrong = factory.read({option.name: value}, {})
            assert (given, wrong) == ({option.name: value}, [])
            if "/" in name:
                # A peer's factory stands for many estimators, each with bounds of its own and a use for some options.
                continue
            assert changes(factory.call(given), factory.call({})), f"{name}.{option.name} changes something"


@pytest.mark.parametrize(
    "kind", ["advantage", "loss", "reduction", "kl", "filter", "correction", "shaping", "select", "controller"]
)
def test_every_registered_part_goes_through_its_node(kind):
    for name in names(kind):
        node = named_spec(kind, name, kind)
        again = spec_of(kind, build(kind, node, kind))
        assert {**again, "name": name} == node
        # A second name of the very same thing comes back as the first.
        assert again["name"] == name or values_of(get(kind, again["name"])) == values_of(get(kind, name))
        for option in options(get(kind, name)).values():
            value = another(option.annotation, option.default) if option.kind is None else None
            if value is not None and not isinstance(value, str):
                changed = {**node, option.name: value}
                again = spec_of(kind, build(kind, changed, kind))
                assert {**again, "name": name} == changed
                assert build(kind, again, kind) is not None


def test_a_numeric_field_of_the_algorithm_may_be_set_without_a_factory_option(experiment):
    assert experiment("algorithm=dapo", "algorithm.entropy_coefficient=0.01").algorithm.entropy_coefficient == 0.01


def test_a_file_is_overridden_by_the_command_line(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(
        "model: somewhere\ndata: {name: svamp, path: a.json}\nreward: numeric_answer\nsteps: 100\n"
        "advantage: {scale_by_std: false}\nsampling.temperature: 0.8\nalgorithm: {name: dapo, clip_low: 0.1}\n"
    )
    plain = load([], file)
    assert (plain.algorithm.name, plain.settings.sampling.temperature) == ("dapo", 0.8)
    assert values_of(plain.algorithm.advantage)["scale_by_std"] is False
    assert values_of(plain.algorithm.loss)["clip_low"] == 0.1
    other = load(["algorithm=grpo", "epochs=2"], file)
    assert values_of(other.algorithm.advantage)["scale_by_std"] is True, "another algorithm comes with its own parts"
    assert (other.settings.steps, other.settings.epochs) == (None, 2.0)
    with pytest.raises(ConfigError, match="path"):
        load(["data=gsm8k", "data.pat=x"], file)
    assert (
        "path" not in values_of(load(["data=gsm8k"], file).dataset)
        or values_of(load(["data=gsm8k"], file).dataset)["path"] == ""
    )
    assert load(["loss=policy_gradient"], file).resolved["algorithm"]["clip_low"] == 0.2, (
        "a replaced part takes its factory option with it"
    )


def test_a_runs_own_file_names_its_files_so_that_it_can_be_run_again_from_any_folder(tmp_path, monkeypatch):
    home, away = tmp_path / "home", tmp_path / "away"
    for folder in (home / "model", home / "heldout", away):
        folder.mkdir(parents=True)
    (home / "mine.py").write_text("def acc(completion, target):\n    return 1.0\n")
    for name in ("rows", "held"):
        (home / f"{name}.jsonl").write_text('{"prompt": "a", "target": "b"}\n')
    monkeypatch.chdir(home)
    parts = "reward.components={acc: ./mine.py:acc, right: math}"
    given = ["model=model", "data.path=rows.jsonl", "reward=weighted", parts, "model.chat_template={{ messages }}"]
    one = load([*given, "data=file", "eval.data=held.jsonl"]).resolved
    (away / "config.yaml").write_text(to_yaml(one))
    mixed = load(["model=smollm2", "data=mixture", "data.parts={a: {path: rows.jsonl}}", "reward=mine.py:acc",
                  "eval.data=heldout"]).resolved  # fmt: skip
    monkeypatch.chdir(away)
    assert load([], away / "config.yaml").resolved == one
    assert one["model"]["source"] == f"{home}/model"
    assert one["model"]["chat_template"] == "{{ messages }}"
    assert one["data"]["path"] == f"{home}/rows.jsonl"
    assert one["eval"]["data"] == f"{home}/held.jsonl"
    assert one["reward"]["components"] == {"acc": f"{home}/mine.py:acc", "right": "math"}
    assert mixed["data"]["parts"]["a"]["path"] == f"{home}/rows.jsonl"
    assert (mixed["model"]["source"], mixed["eval"]["data"]) == ("smollm2", "heldout")
    assert mixed["reward"]["name"] == f"{home}/mine.py:acc"


def test_what_the_command_line_leaves_without_effect_goes(tmp_path, experiment):
    file = tmp_path / "run.yaml"
    file.write_text(to_yaml(experiment("eval.temperature=0.5", "warm_start.epochs=2", "warm_start.rows=3").resolved))
    made = load(["eval.greedy=true", "warm_start.epochs=0"], file).settings
    assert (made.eval.temperature, made.warm_start.rows) == (1.0, 16)
    assert load(["eval.greedy=false"], file).settings.eval.temperature == 0.5


def test_a_registered_experiment_is_a_file_of_its_package(install, monkeypatch, tmp_path):
    package = tmp_path / "acme_rl"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "small.yaml").write_text("steps: 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    install("acme", {("experiment", "small"): "acme_rl:small.yaml", ("experiment", "gone"): "acme_rl:gone.yaml"})
    assert preset("small") == ({"steps": 7}, "acme_rl:small.yaml")
    with pytest.raises(ConfigError, match=r"acme_rl:gone.yaml\) cannot be read"):
        preset("gone")
    with pytest.raises(ConfigError, match="give a file, or data= and model="):
        preset("nothing")


def test_hydra_is_left_as_it_was_found(experiment):
    from hydra.core.global_hydra import GlobalHydra

    before = GlobalHydra.instance().is_initialized()
    experiment("algorithm=rloo")
    assert GlobalHydra.instance().is_initialized() is before


def test_an_experiment_survives_a_trip_to_another_process(experiment):
    again = cloudpickle.loads(cloudpickle.dumps(experiment("algorithm=ppo", "advantage.lam=0.9")))
    assert values_of(again.algorithm.chain[0])["lam"] == 0.9
