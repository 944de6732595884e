import functools
import pickle
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import pytest
import torch

from rlcore import bind
from rlcore.columns import COLUMNS, Column
from rlcore.component import (
    CAPTURE_LIMIT,
    Kl,
    OfKind,
    Read,
    check,
    dumps,
    identity,
    invoke,
    is_stateful,
    name_of,
    options,
    outputs,
    reads,
    started,
)
from rlcore.errors import ComponentError, ConfigError
from rlcore.registry import load_file


class Two(NamedTuple):
    advantage: torch.Tensor
    returns: torch.Tensor


def estimator(reward, group, value=None, *, scale: float = 1.0, mode: Literal["mean", "max"] = "mean", n: int = 2):
    return reward * scale


def with_two(reward) -> Two:
    return Two(reward, reward)


def squared(logprob, ref_logprob, *, factor: float = 1.0):
    return factor * (logprob - ref_logprob) ** 2


def penalised(reward, *, inner: Kl = squared):
    return reward - inner().sum(1)


class Running:
    """A baseline that remembers."""

    def __init__(self, *, decay: float = 0.9) -> None:
        self.decay, self.mean = decay, 0.0

    def __call__(self, reward):
        self.mean = self.decay * self.mean + (1 - self.decay) * float(reward.mean())
        return reward - self.mean

    def state_dict(self):
        return {"mean": self.mean}

    def load_state_dict(self, state):
        self.mean = state["mean"]


def test_positional_parameters_are_reads_and_none_makes_one_optional():
    assert reads(estimator) == (Read("reward"), Read("group"), Read("value", optional=True))
    assert reads(bind(estimator, scale=2.0)) == reads(estimator)
    assert reads(Running) == reads(Running()) == (Read("reward"),)


def test_keyword_only_parameters_are_options_with_the_value_that_holds_now():
    assert {name: option.default for name, option in options(estimator).items()} == {
        "scale": 1.0,
        "mode": "mean",
        "n": 2,
    }
    bound = bind(bind(estimator, scale=2.0, mode="max"), scale=3.0)
    assert {name: option.default for name, option in options(bound).items()} == {"scale": 3.0, "mode": "max", "n": 2}
    assert options(estimator)["scale"].annotation is float
    assert options(Running)["decay"].default == 0.9 and options(lambda reward: reward) == {}


def test_a_bound_component_keeps_its_name_and_what_it_computes():
    bound = bind(estimator, scale=3.0)
    assert name_of(bound) == "estimator" and name_of(Running) == name_of(Running()) == "Running"
    assert bound(torch.ones(2), None).tolist() == [3.0, 3.0]
    assert bind(estimator) is estimator


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"scal": 1.0}, "estimator has no option 'scal'; options: scale, mode, n. Did you mean 'scale'"),
        ({"reward": 1.0}, "reads 'reward' as a column; it cannot be bound"),
        ({"scale": "much"}, "scale='much': expected a number"),
        ({"scale": True}, "scale=True: expected a number, found true"),
        ({"n": 3.5}, "n=3.5"),
        ({"n": False}, "n=False: expected a whole number, found false"),
        ({"mode": "median"}, "mode='median': expected one of mean, max"),
    ],
)
def test_an_option_that_does_not_fit_is_refused_where_it_is_bound(values, message):
    with pytest.raises(ConfigError, match=message):
        bind(estimator, **values)


def test_what_was_bound_has_the_type_that_the_option_declares():
    def typed(reward, *, scale: float = 1.0, n: int = 1, betas: tuple[float, float] = (0.0, 0.0), on: bool = False):
        return reward

    bound = options(bind(typed, scale=2, n=3.0, betas=[1, 2], on=True))
    assert [type(bound[name].default) for name in ("scale", "n", "on")] == [float, int, bool]
    assert bound["betas"].default == (1.0, 2.0)
    # A number that came as text is a number afterwards, and never text that is multiplied.
    assert options(bind(typed, scale="0.5"))["scale"].default == 0.5


def test_outputs_are_the_fields_of_the_named_tuple_in_the_return_annotation():
    assert outputs(with_two) == ("advantage", "returns")
    assert outputs(estimator) is None and outputs(Running) is None


def test_an_inner_component_adds_its_reads_and_arrives_with_its_columns_bound():
    assert [read.name for read in reads(penalised)] == ["reward", "logprob", "ref_logprob"]
    columns = {
        "reward": torch.ones(1),
        "old_logprob": torch.tensor([[3.0, 1.0]]),
        "ref_logprob": torch.tensor([[1.0, 1.0]]),
    }
    doubled = bind(penalised, inner=bind(squared, factor=2.0))
    assert invoke(doubled, columns, renamed={"logprob": "old_logprob"}).tolist() == [1.0 - 2.0 * 4.0]
    with pytest.raises(ConfigError, match="expected a component of kind kl"):
        bind(penalised, inner=3)


def test_an_inner_component_may_be_left_out():
    def with_optional(reward, *, inner: Annotated[Callable[..., Any], OfKind("kl")] | None = None):
        return reward if inner is None else reward - inner().sum(1)

    assert [read.name for read in reads(with_optional)] == ["reward"]
    assert [read.name for read in reads(bind(with_optional, inner=squared))] == ["reward", "logprob", "ref_logprob"]
    assert invoke(with_optional, {"reward": torch.ones(1)}).tolist() == [1.0]


def test_an_optional_read_is_none_where_there_is_no_such_column():
    def pick(reward, value=None):
        return reward if value is None else value

    assert invoke(pick, {"reward": 1}) == 1
    assert invoke(pick, {"reward": 1, "value": 2}) == 2
    with pytest.raises(KeyError):
        invoke(pick, {"value": 2})


def test_each_run_makes_its_own_instance_of_a_stateful_component():
    one, two = started(bind(Running, decay=0.5)), started(bind(Running, decay=0.5))
    one(torch.tensor([2.0]))
    assert (one.mean, two.mean, one.decay) == (1.0, 0.0, 0.5)
    assert is_stateful(Running) and is_stateful(bind(Running, decay=0.5)) and not is_stateful(estimator)
    assert started(estimator) is estimator


def many(*columns):
    return columns


def anything(reward, **rest):
    return reward


def no_such_column(rewrd):
    return rewrd


def not_annotated(reward, *, scale=1.0):
    return reward


def no_default(reward, *, scale: float):
    return reward


def bool_for_number(reward, *, scale: float = True):
    return reward


def defaulted_column(reward, group=3):
    return reward


def option_before_the_star(reward, group, scale: float = 2.0):
    return scale * reward


class Positional:
    def __init__(self, decay: float = 0.9) -> None:
        self.decay = decay

    def __call__(self, reward):
        return reward


@pytest.mark.parametrize(
    ("component", "message"),
    [
        (many, r"advantage 'many' has \*columns; name the columns"),
        (anything, r"has \*\*rest"),
        (no_such_column, "parameter 'rewrd', which is no column. Did you mean 'reward'"),
        (not_annotated, "option 'scale' has no annotation"),
        (no_default, "option 'scale' has no default"),
        (bool_for_number, "the default of option 'scale' is True; expected a number, found true"),
        (defaulted_column, "'group' has the default 3 and stands before any `\\*`"),
        (option_before_the_star, r"If it is an option, write it after a `\*`: \(..., \*, scale: float = 2.0\)"),
        (functools.partial(estimator, torch.ones(1)), "has columns bound by position"),
        (Positional, "takes 'decay' by position"),
        ("gae", "expected a function"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_signature_that_does_not_keep_the_rules_is_refused(component, message):
    with pytest.raises(ComponentError, match=message):
        check("advantage", component)


def test_signatures_that_keep_the_rules_pass():
    for component in (estimator, with_two, Running, Running(decay=0.5), penalised, bind(estimator, scale=2.0)):
        check("advantage", component)
    check("reward", anything)
    table = COLUMNS.declare(
        Column(name="rewrd", dims=("B",), dtype="float", meaning="a column of a plugin", writer="acme")
    )
    check("advantage", no_such_column, table=table)


# -- identity and transport


def test_identity_of_an_installed_component_is_its_distribution_and_the_hash_of_its_file():
    from rlcore_algorithms.advantages import gae

    found = identity(bind(gae, gamma=0.9))
    assert found == identity(gae)
    assert found.distribution == "rlcore" and found.version and len(found.sha256) == 64
    assert found.name.endswith(":gae")


def test_identity_of_a_function_made_in_memory_is_a_hash_of_what_it_does():
    space: dict[str, Any] = {"__name__": "notebook"}
    exec("def f(reward):\n    return reward * 2\ndef g(reward):\n    return reward * 3\n", space)
    assert identity(space["f"]).sha256 != identity(space["g"]).sha256
    assert identity(space["f"]).distribution == ""


def test_identity_of_a_file_component_follows_its_text_and_is_equal_in_every_process(tmp_path):
    def write(folder, factor):
        folder.mkdir()
        (folder / "mine.py").write_text(f"def mine(reward):\n    return reward * {factor}\n")
        return f"{folder / 'mine.py'}:mine"

    one, other = write(tmp_path / "a", 2), write(tmp_path / "b", 3)
    found = identity(load_file(one))
    assert found.sha256 != identity(load_file(other)).sha256
    code = """
import sys
from rlcore.component import identity
from rlcore.registry import load_file
print(identity(load_file(sys.argv[1])))
"""
    said = subprocess.run([sys.executable, "-c", code, one], capture_output=True, text=True, check=True).stdout.strip()
    assert said == str(found)


def test_a_component_of_a_file_or_a_notebook_travels_by_value_to_a_process_that_cannot_import_it(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        textwrap.dedent(
            """
            FACTOR = 3

            def helper(x):
                return x * FACTOR

            def mine(reward, *, plus: float = 0.0):
                return helper(reward) + plus
            """
        )
    )
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("def in_main(reward):\n    return reward + 1\n", space)
    components = [bind(load_file(f"{file}:mine"), plus=1.0), space["in_main"], lambda reward: reward - 1]
    data = b"".join(len(d).to_bytes(8, "big") + d for d in map(dumps, components))
    file.unlink()
    code = """
import pickle, sys
data = sys.stdin.buffer.read()
while data:
    size = int.from_bytes(data[:8], "big")
    print(pickle.loads(data[8:8 + size])(2))
    data = data[8 + size:]
"""
    # Spawned apart: without this test's modules, and with the file gone.
    said = subprocess.run(
        [sys.executable, "-c", code], input=data, capture_output=True, check=True, cwd=tmp_path
    ).stdout
    assert said.decode().split() == ["7.0", "3", "1"]


def test_transport_wakes_no_module_that_imports_lazily(monkeypatch):
    class Lazy(types.ModuleType):
        def __getattr__(self, name):
            raise AssertionError(f"{name} was asked for")

    monkeypatch.setitem(sys.modules, "lazy_module", Lazy("lazy_module"))
    assert dumps(estimator)


def test_an_installed_component_travels_by_name():
    from rlcore_algorithms.advantages import gae

    data = dumps(bind(gae, gamma=0.5))
    assert len(data) < 1000 and pickle.loads(data).keywords == {"gamma": 0.5}


def test_a_component_that_captured_much_is_refused_with_the_name_of_the_variable():
    table, small = torch.zeros(CAPTURE_LIMIT // 4 + 1), 3

    def looks_up(reward):
        return reward + table[small]

    with pytest.raises(ComponentError, match=r"looks_up captures 1.0 MiB, mostly the variable 'table'"):
        dumps(looks_up)

    def with_option(reward, *, table: Any = None):
        return reward

    with pytest.raises(ComponentError, match="with_option captures .* mostly the variable 'table'"):
        dumps(functools.partial(with_option, table=table))
    assert dumps(lambda reward: reward + small)


def test_an_annotation_that_names_nothing_is_an_error_of_the_component():
    def lost(score) -> "Nope":
        return score

    with pytest.raises(ComponentError, match="lost: an annotation cannot be resolved .*Nope"):
        outputs(lost)
