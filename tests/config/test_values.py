"""Values: what is written is what is meant, and nothing that is written is ever run."""

import json
from contextlib import suppress

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore import ConfigError, RLCoreError
from rlcore.config import load, to_yaml
from rlcore.config.overrides import parse_override
from rlcore.config.yaml_files import escaped, read_yaml

TEXTS = [
    "a b", "a=b", "a,b", "a=b,c=d", r"C:\Users\me\data.json", "", "ünï cødé 数", '"', "it's", "[x",
    "{prompt}", "{a: 1}", "[1,2]", "null", "true", "123", "1e-6", "~/data", "${", "$(id)", "`id`",
    "!!python/object/apply:os.system [id]", "&a *a", "#x",
    "a: b", "- a", "%", "@x", "\\n", "???", "x\ny", "x\ty",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_taken_as_it_is_written(experiment, text):
    assert experiment(f"data.template={text}").resolved["data"]["template"] == text


def test_quotes_around_a_value_are_not_part_of_it(experiment):
    assert experiment('data.template="a, b"').resolved["data"]["template"] == "a, b"


def test_a_path_may_hold_anything(experiment):
    for path in ("with space.json", "lr=1e-5/x.json", "a,b.json", r"C:\x\y.json", "null"):
        assert experiment(f"data.path={path}").settings.data.path == path


def test_numbers_and_lists_are_read_by_type(experiment):
    made = experiment("learning_rate=1e-6", "sampling.stop=[a, 'b c']", "run.name=2024", "eval.data=null").settings
    assert (made.learning_rate, made.sampling.stop, made.run.name, made.eval.data) == (
        1e-6,
        ("a", "b c"),
        "2024",
        None,
    )
    assert experiment("sampling.stop=x").settings.sampling.stop == ("x",)
    assert experiment("sampling={temperature: 0.5, top_k: 3}").settings.sampling.top_k == 3


def test_plain_values_of_the_command_line_are_those_of_the_files():
    assert [parse_override(f"key={t}").value for t in ("1e-6", "010", "no", "0x10", "1:30", ".5", "-3", "true")] == [
        1e-6, "010", "no", "0x10", "1:30", 0.5, -3, True,
    ]  # fmt: skip
    assert parse_override("key=1_000").value == 1000, "Hydra's grammar groups digits"
    assert read_yaml("a: [1e-6, 010, no, 1:30, 2020-01-01]") == {"a": [1e-6, "010", "no", "1:30", "2020-01-01"]}


def test_an_interpolation_is_resolved_over_what_was_said_and_over_defaults(experiment, monkeypatch):
    monkeypatch.setenv("OF_THIS_TEST", "a b")
    assert experiment("data.system_prompt=${oc.env:OF_THIS_TEST}").resolved["data"]["system_prompt"] == "a b"
    assert experiment("max_prompt_tokens=${max_new_tokens}").settings.max_prompt_tokens == 256
    assert (
        experiment("eval.temperature=${sampling.temperature}", "sampling.temperature=0.7").settings.eval.temperature
        == 0.7
    )
    with pytest.raises(ConfigError, match=r"cannot be composed: Interpolation key 'nothing' not found.*written with"):
        experiment("steps=${nothing}")


def test_a_text_with_a_dollar_brace_comes_back_from_a_runs_own_file(experiment, tmp_path):
    for text in (r"\${oc.env:HOME}", "a ${ b", r"\\${x}"):
        one = experiment(f"data.template={text}")
        (tmp_path / "config.yaml").write_text(to_yaml(one.config))
        assert load([], tmp_path / "config.yaml").resolved == one.resolved
    assert experiment(r"data.template=\${oc.env:HOME}").resolved["data"]["template"] == "${oc.env:HOME}"


def test_a_laughing_file_is_refused():
    with pytest.raises(RLCoreError, match="aliases"):
        read_yaml("a: &a [1,1]\nb: [*a,*a]\n")


def test_a_deep_value_is_an_error(experiment):
    with pytest.raises(RLCoreError):
        experiment("optimizer.betas=" + "[" * 1000)


ROUND = [
    [],
    ["algorithm=dapo", "algorithm.clip_high=0.3"],
    ["algorithm=ppo", "advantage.lam=0.9", "algorithm.kl_in_reward_coefficient=0.1"],
    ["advantage=[reward_to_go,whiten]", "loss=policy_gradient", "algorithm.group_size=1"],
    ["kl=k3", "algorithm.kl_coefficient=0.001", "reduction={name: constant, length: 7}"],
    ["reward=docs/examples/math_reward.py:compute_math_reward", "sampling.temperature=0.8"],
    ["tracker=[]", "run.name=1e3", "data.template=yes", "data.system_prompt=1_000", "reflection_phrases=[no, 'null']"],
    ["reward_manager.workers=2", "sampler.max_rows=3", "eval.data=012", "model.chat_template={% if x %}"],
]


@pytest.mark.parametrize("overrides", ROUND, ids=lambda o: "_".join(o)[:40])
def test_a_resolved_configuration_goes_round(experiment, tmp_path, overrides):
    one = experiment(*overrides)
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(one.resolved), encoding="utf-8")
    again = load([], file)
    assert again.resolved == one.resolved
    assert again.settings == one.settings
    file.write_text(to_yaml(one.config), encoding="utf-8")
    assert load([], file).resolved == one.resolved, "what was said is enough"
    file.write_text(to_yaml(one.resolved), encoding="utf-8")
    assert json.dumps(one.resolved) and yaml.safe_load(file.read_text()) == one.resolved, "others read it as we do"


def test_a_resolved_configuration_can_still_be_turned(experiment, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(experiment("algorithm.clip=0.3", "sampling.temperature=0.7").config))
    changed = load(["algorithm.clip=0.1"], file).resolved
    assert (changed["loss"]["clip_low"], changed["loss"]["clip_high"], changed["sampling"]["temperature"]) == (
        0.1,
        0.1,
        0.7,
    )
    replaced = load(["loss=policy_gradient"], file).resolved
    assert (replaced["loss"], replaced["algorithm"]["clip"]) == ({"name": "policy_gradient"}, 0.2)
    other = load(["algorithm=ppo"], file).resolved
    assert [n["name"] for n in other["advantage"]] == ["gae", "whiten"]
    file.write_text(to_yaml(replaced))
    assert load([], file).resolved == replaced
    with pytest.raises(ConfigError, match=r"algorithm\.clip=0\.1 has no effect: loss\.clip_low=0\.3 is set beside it"):
        experiment("algorithm.clip=0.1", "loss.clip_low=0.3", "loss.clip_high=0.3")


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.text() | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none(),
        lambda c: st.lists(c, max_size=3),
    )
)
def test_what_is_written_reads_back_equal(value):
    assert read_yaml(to_yaml({"a": value})) == {"a": escaped(value)}


KEYS = st.sampled_from(
    [
        *("steps", "algorithm", "advantage", "advantage.inner", "loss.clip_low", "data", "data.path", "data.template"),
        *("reward", "kl", "filter", "tracker", "model", "model.chat_template", "sampling", "sampling.stop", "run.name"),
        *("shaping", "resume", "eval.data", "sampler.max_rows", "a.b"),
    ]
)
CHARACTERS = st.lists(
    st.sampled_from([*"ab1.,:;=+~[]{}()<>\"'$\\/ \n\t#&*!|>%@`-_0e", "\0", "é", "\ud800", "null", "gae"]), max_size=12
).map("".join)
WORDS = (
    st.builds(
        lambda sign, key, value: f"{sign}{key}={value}", st.sampled_from(["", "", "", "+", "++", "~"]), KEYS, CHARACTERS
    )
    | CHARACTERS
)


@settings(max_examples=120, deadline=None)
@given(st.lists(WORDS, max_size=3))
def test_whatever_is_typed_only_our_errors_escape(overrides):
    with suppress(RLCoreError):
        load(["model=m", "data=svamp", "reward=numeric_answer", *overrides])


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40))
def test_whatever_is_typed_parses_or_is_refused(text):
    with suppress(RLCoreError):
        parse_override(text)
    with suppress(RLCoreError):
        parse_override(f"a={text}")
