import importlib
import inspect
import sys
import textwrap
import types
from dataclasses import replace

import pytest

from rlcore import hookimpl
from rlcore.columns import Column
from rlcore.errors import ConfigError, RegistryError, UnknownNameError
from rlcore.hooks import Add
from rlcore.kinds import KINDS
from rlcore.registry import Plugin, Registry, load_file, resolve
from rlcore_algorithms import grpo


def first(reward):
    return reward


def second(reward):
    return -reward


def plugin(name="acme", distribution="acme-rl", version="1.0"):
    return Plugin(name, f"{name}_module", distribution, version)


def module_that(register, name="acme_module", **hooks):
    module = types.ModuleType(name)
    module.register = hookimpl(register)
    for hook, function in hooks.items():
        setattr(module, hook, hookimpl(function, specname=hook))
    return module


def loaded(*pairs):
    registry = Registry()
    for about, register in pairs:
        registry.load(about, lambda register=register, about=about: module_that(register, f"{about.name}_module"))
    return registry


def offering(name, thing, kind="advantage"):
    return lambda add: getattr(add, kind)(name, thing)


def test_what_a_plugin_offers_is_found_by_kind_and_name():
    registry = loaded((plugin(), offering("mine", first)))
    assert registry.get("advantage", "mine") is first is registry.get("advantage", "acme-rl:mine")
    assert registry.names("advantage") == ["mine"] and registry.names("loss") == []
    entry = registry.entry("advantage", "mine")
    assert (entry.distribution, entry.version, entry.plugin) == ("acme-rl", "1.0", "acme")


def test_an_unknown_name_or_kind_is_refused_with_the_nearest():
    registry = loaded((plugin(), offering("mine", first)))
    with pytest.raises(UnknownNameError, match="unknown advantage 'mime'. Did you mean 'mine'. Known: mine"):
        registry.get("advantage", "mime")
    with pytest.raises(UnknownNameError, match="unknown kind 'advantages'.*Did you mean 'advantage'"):
        registry.names("advantages")


def test_a_plugin_that_cannot_be_imported_is_left_out_and_the_rest_works():
    # B98
    registry = Registry()

    def broken():
        raise ImportError("No module named 'flash_maths'")

    registry.load(plugin("broken", "broken-rl"), broken)
    registry.load(plugin(), lambda: module_that(offering("mine", first)))
    assert registry.get("advantage", "mine") is first
    out = registry.plugins[0]
    assert out.reason == "ImportError: No module named 'flash_maths'" and "Traceback" in out.traceback
    with pytest.raises(
        UnknownNameError, match=r"plugin broken \(broken-rl\) is out: ImportError: No module named 'flash_maths'"
    ):
        registry.get("advantage", "theirs")


@pytest.mark.parametrize("error", [RuntimeError("later"), KeyError("x"), SyntaxError("bad"), SystemExit(3)])
def test_whatever_a_plugin_raises_while_it_registers_leaves_nothing_of_it(error):
    def register(add):
        add.advantage("half", first)
        raise error

    registry = loaded((plugin(), register), (plugin("other", "other-rl"), offering("mine", second)))
    assert registry.names("advantage") == ["mine"]
    assert type(error).__name__ in registry.plugins[0].reason and not registry.plugins[1].reason


def test_a_plugin_is_taken_whole_or_not_at_all():
    def register(add):
        add.advantage("fine", first)
        add.column(Column(name="surprise", dims=("B",), dtype="float", meaning="m", writer="acme"))
        add.advantage("twice", first)
        add.advantage("twice", second)

    registry = loaded((plugin(), register))
    assert registry.names("advantage") == [] and "surprise" not in registry.columns
    assert "advantage 'twice' is registered twice by acme-rl" in registry.plugins[0].reason


def test_a_component_that_breaks_the_rules_puts_its_plugin_out_with_the_reason():
    registry = loaded((plugin(), offering("bad", lambda rewrd: rewrd)))
    assert "no column" in registry.plugins[0].reason and "Did you mean 'reward'" in registry.plugins[0].reason


def test_a_misspelt_hook_is_an_error_of_its_plugin_only():
    module = module_that(offering("mine", first))
    module.step_finishd = hookimpl(lambda step: None)
    registry = Registry()
    registry.load(plugin(), lambda: module)
    registry.load(plugin("other", "other-rl"), lambda: module_that(offering("theirs", second), "other_module"))
    assert "step_finishd" in registry.plugins[0].reason
    assert registry.names("advantage") == ["theirs"]


def test_an_unknown_name_is_told_how_to_take_it_from_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(
        "import math\nfrom pathlib import Path\n\ndef score(completion):\n    return 1.0\n"
    )
    registry = Registry()
    for name, said in {
        "own.py": "To take it from the file own.py write own.py:NAME$",
        "own:score": "To take it from the file own.py write own.py:score$",
        "score": "One of your own is path/to/file.py:NAME$",
    }.items():
        with pytest.raises(UnknownNameError, match=said):
            registry.get("reward", name)
    with pytest.raises(RegistryError, match="has no 'scor'; it has: score. Did you mean 'score'"):
        registry.get("reward", "own.py:scor")


def test_an_unknown_kind_of_part_is_refused_with_the_nearest():
    registry = loaded((plugin(), lambda add: add.advantge("x", first)))
    assert "Did you mean 'advantage'" in registry.plugins[0].reason


@pytest.mark.parametrize("name", ["", "a b", "dist:mine", "a=b", "a,b"])
def test_a_name_that_a_command_line_could_not_say_is_refused(name):
    registry = loaded((plugin(), offering(name, first)))
    assert "a name is a word" in registry.plugins[0].reason


def test_two_owners_of_one_name_are_both_named_and_either_can_be_asked_for():
    registry = loaded(
        (plugin("a", "dist-a", "1.0"), offering("mine", first)),
        (plugin("b", "dist-b", "2.0"), offering("mine", second)),
    )
    with pytest.raises(
        RegistryError, match=r"'mine' is registered by dist-a 1.0 and dist-b 2.0; say which: dist-a:mine, dist-b:mine"
    ):
        registry.get("advantage", "mine")
    assert registry.get("advantage", "dist-a:mine") is first and registry.get("advantage", "dist-b:mine") is second
    assert registry.names("advantage") == ["dist-a:mine", "dist-b:mine"]
    with pytest.raises(UnknownNameError):
        registry.get("advantage", "dist-c:mine")


def test_two_plugins_with_one_column_are_both_named():
    def column(dims):
        return lambda add: add.column(Column(name="surprise", dims=dims, dtype="float", meaning="m", writer="w"))

    registry = loaded((plugin("a", "dist-a"), column(("B",))), (plugin("b", "dist-b"), column(("B", "T"))))
    reason = registry.plugins[1].reason
    assert "'surprise'" in reason and "plugin a of dist-a" in reason and "plugin b of dist-b" in reason
    assert registry.columns["surprise"].dims == ("B",)
    same = loaded((plugin("a", "dist-a"), column(("B",))), (plugin("b", "dist-b"), column(("B",))))
    assert not any(p.reason for p in same.plugins)
    built_in = loaded(
        (plugin(), lambda add: add.column(Column(name="reward", dims=("B",), dtype="int", meaning="mine", writer="me")))
    )
    assert "'reward' is declared by rlcore" in built_in.plugins[0].reason


def test_a_component_may_read_the_column_that_its_plugin_declares():
    def register(add):
        add.advantage("by_surprise", lambda surprise: surprise)
        add.column(Column(name="surprise", dims=("B",), dtype="float", meaning="m", writer="w"))

    registry = loaded((plugin(), register))
    assert registry.names("advantage") == ["by_surprise"]


def test_one_module_imported_twice_is_nothing_new(tmp_path, monkeypatch):
    # B97: the same module under a second entry point, and reloaded.
    (tmp_path / "acme_twice.py").write_text(
        "def mine(reward):\n    return reward\n\n\ndef register(add):\n    add.advantage('mine', mine)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("acme_twice")
    calls = []
    module.step_finished = hookimpl(lambda step: calls.append(step), specname="step_finished")
    registry = Registry()
    registry.load(plugin("one"), lambda: module)
    registry.load(plugin("two"), lambda: module)
    kept = registry.get("advantage", "mine")
    fresh = types.ModuleType("acme_twice")
    fresh.__dict__.update(vars(importlib.reload(module)))
    registry.load(plugin("three"), lambda: fresh)
    assert registry.get("advantage", "mine") is kept and fresh.mine is not kept
    assert not any(p.reason for p in registry.plugins)
    registry.notify("step_finished", step=3, metrics={})
    assert calls[0] == 3
    sys.modules.pop("acme_twice")


def test_one_name_with_other_options_is_another_thing():
    from functools import partial

    def scaled(reward, *, scale: float = 1.0):
        return reward * scale

    def register(add):
        add.advantage("scaled", partial(scaled, scale=1.0))
        add.advantage("scaled", partial(scaled, scale=2.0))

    assert "registered twice" in loaded((plugin(), register)).plugins[0].reason


def test_a_module_s_public_functions_are_registered_by_their_own_names():
    module = types.ModuleType("acme_losses")
    source = "def first(reward):\n    return reward\n\n\ndef _helper():\n    pass\n\n\nsecond = first\n"
    exec(source, module.__dict__)
    module.elsewhere = textwrap.dedent
    module.number = 3
    registry = loaded((plugin(), lambda add: add.module("advantage", module)))
    assert registry.names("advantage") == ["first", "second"]
    assert registry.get("advantage", "first") is module.first


def test_a_module_without_a_public_function_and_an_unknown_kind_are_refused():
    empty = types.ModuleType("acme_nothing")
    registry = loaded((plugin(), lambda add: add.module("advantage", empty)))
    assert "acme_nothing defines no public function" in registry.plugins[0].reason
    registry = loaded((plugin(), lambda add: add.module("advantages", empty)))
    assert "unknown kind 'advantages'. Did you mean 'advantage'" in registry.plugins[0].reason


def test_there_is_a_method_to_add_each_kind_of_the_table_and_no_other():
    methods = {name for name, value in vars(Add).items() if inspect.isfunction(value) and not name.startswith("_")}
    assert methods == {*KINDS, "column", "module"}
    for kind in KINDS:
        add = Add()
        getattr(add, kind)("mine", "acme:thing")
        assert add.offers == [(kind, "mine", "acme:thing")]
        assert kind.replace("_", " ") in getattr(Add, kind).__doc__


@pytest.mark.parametrize("mark", ["wrapper", "hookwrapper"])
def test_u30_a_hook_that_is_marked_as_a_wrapper_is_refused(mark):
    """It registered, and never ran."""
    module = module_that(offering("mine", first))

    def step_finished(step):
        yield

    module.step_finished = hookimpl(step_finished, **{mark: True})
    registry = Registry()
    registry.load(plugin(), lambda: module)
    assert "hook 'step_finished' is marked as a wrapper" in registry.plugins[0].reason
    assert registry.names("advantage") == []


def test_u29_a_name_with_two_owners_is_listed_and_defaults_mean_our_own():
    """A stranger's reward of the same name stopped the default run."""
    registry = loaded(
        (plugin("core", "rlcore"), offering("gae", first)),
        (plugin("other", "acme-rl"), offering("gae", second)),
        (plugin("third", "third-rl"), offering("alone", first)),
    )
    assert registry.clashes() == {("advantage", "gae"): ["rlcore:gae", "acme-rl:gae"]}
    assert registry.unambiguous("advantage", "gae") == "rlcore:gae"
    assert registry.unambiguous("advantage", "alone") == "alone"
    assert registry.get("advantage", registry.unambiguous("advantage", "gae")) is first


@pytest.mark.parametrize("kind", ["loss", "reduction", "kl", "select"])
def test_u32_a_class_is_refused_where_no_state_can_be_kept(kind):
    """It was accepted and failed in the first update."""

    class Stateful:
        def __call__(self, logprob):
            return logprob

    registry = loaded((plugin(), offering("mine", Stateful, kind)))
    assert "is a class" in registry.plugins[0].reason and "write a function" in registry.plugins[0].reason
    with pytest.raises(ConfigError, match="Stateful is a class"):
        replace(grpo(), **({"selects": (Stateful,)} if kind == "select" else {kind: Stateful}))


# -- watching


def test_a_watching_hook_that_fails_is_logged_with_its_plugin_and_stops_nothing(caplog, monkeypatch):
    seen = []

    def failing(step, metrics):
        raise ValueError("the disk is full")

    registry = Registry()
    registry.load(plugin("bad", "bad-rl"), lambda: module_that(lambda add: None, "bad", step_finished=failing))
    registry.load(
        plugin("good", "good-rl"),
        lambda: module_that(lambda add: None, "good", step_finished=lambda metrics: seen.append(metrics)),
    )
    registry.notify("step_finished", step=1, metrics={"score": 0.5})
    assert seen == [{"score": 0.5}]
    assert "plugin bad-rl:bad failed in hook step_finished" in caplog.text and "the disk is full" in caplog.text
    monkeypatch.setenv("RLCORE_STRICT_HOOKS", "1")
    with pytest.raises(ValueError, match="the disk is full"):
        registry.notify("step_finished", step=1, metrics={})


# -- lazily named, files


def test_a_thing_may_be_named_and_is_imported_only_when_it_is_asked_for():
    registry = loaded(
        (plugin(), lambda add: (add.sampler("fast", "no_such_engine.sampler:Fast"), add.sampler("json", "json:dumps")))
    )
    assert registry.names("sampler") == ["fast", "json"]
    import json

    assert registry.get("sampler", "json") is json.dumps
    with pytest.raises(
        RegistryError,
        match="'no_such_engine.sampler:Fast' cannot be loaded: ModuleNotFoundError: No module named 'no_such_engine'",
    ):
        registry.get("sampler", "fast")
    with pytest.raises(RegistryError, match="has no attribute 'dump_s'"):
        resolve("json:dump_s")


def test_a_file_gives_what_it_defines_and_a_wrong_path_or_name_says_the_nearest(tmp_path):
    (tmp_path / "mine.py").write_text("def near(completion):\n    return 1.0\n")
    spec = f"{tmp_path}/mine.py:near"
    assert Registry().get("reward", spec)("x") == 1.0
    assert load_file(spec) is load_file(spec)
    with pytest.raises(RegistryError, match="has no 'neer'; it has: near. Did you mean 'near'"):
        load_file(f"{tmp_path}/mine.py:neer")
    with pytest.raises(RegistryError, match="there is no file .*mime.py. Did you mean 'mine.py'"):
        load_file(f"{tmp_path}/mime.py:near")
    (tmp_path / "bad.py").write_text("import no_such_module\n")
    with pytest.raises(RegistryError, match=r"bad.py cannot be imported: ModuleNotFoundError"):
        load_file(f"{tmp_path}/bad.py:x")


# -- entry points, as installed


def install(folder, distribution, module, text, *, point="acme", version="1.0"):
    """Lay out an installed distribution: its module, and metadata with one entry point."""
    (folder / f"{module}.py").write_text(textwrap.dedent(text))
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[rlcore]\n{point} = {module}\n")


def test_installed_plugins_are_found_by_their_entry_points_and_rlcore_plugins_chooses(tmp_path, monkeypatch):
    install(
        tmp_path,
        "good-rl",
        "good_rl_x",
        "def mine(reward):\n    return reward\ndef register(add):\n    add.advantage('mine', mine)\n",
        point="good",
    )
    install(tmp_path, "bad-rl", "bad_rl_x", "import no_such_module\n", point="bad")
    monkeypatch.syspath_prepend(tmp_path)

    def found(chosen):
        monkeypatch.setenv("RLCORE_PLUGINS", chosen)
        registry = Registry.from_entry_points()
        mine = {p.distribution: p.reason for p in registry.plugins if p.distribution != "rlcore"}
        return (
            mine["good-rl"],
            mine["bad-rl"],
            "mine" in registry.names("advantage"),
            "gae" in registry.names("advantage"),
        )

    broken, off = "ModuleNotFoundError: No module named 'no_such_module'", "switched off by RLCORE_PLUGINS"
    assert found("") == ("", broken, True, True)
    assert found("-good") == (off, broken, False, True)
    assert found("good-rl") == ("", off, True, True)
    assert found("good, -good-rl") == (off, off, False, True)
    sys.modules.pop("good_rl_x")


def test_our_own_parts_come_in_by_the_same_door():
    registry = Registry.from_entry_points()
    ours = [p for p in registry.plugins if p.distribution == "rlcore"]
    assert {p.name for p in ours} >= {"core", "algorithms", "rewards", "envs"} and not any(p.reason for p in ours)
    assert {"gae", "group_norm", "leave_one_out", "reward_to_go"} <= set(registry.names("advantage"))
