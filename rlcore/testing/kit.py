"""Named checks by kind, and how a package asks them: `check` for a list, `conform` for a test.

A check is a plain function of the thing that raises AssertionError; its name is the function's, its docstring one
sentence. Which checks there are depends on the kind and on what the thing reads.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from rlcore.algorithm import Algorithm
from rlcore.component import check as check_signature
from rlcore.component import options, source_of
from rlcore.errors import ConfigError, unknown
from rlcore.kinds import KINDS
from rlcore.registry import Entry, registry
from rlcore.services import check_class, check_started
from rlcore.testing.laws import ANY_LAWS, LAWS, applies
from rlcore.testing.laws.chains import chain_estimators

Check = Callable[[], None]
STARTED = ("sampler", "trainer", "environment", "tracker", "weight_transfer")
"""Kinds that are handed over as something to start: a class or function without arguments, or a started thing."""


class CheckResult(NamedTuple):
    """The result of one check: its name, whether it holds, and what is wrong if not."""

    name: str
    ok: bool
    message: str


def checks_of(kind: str, thing: Any) -> dict[str, Check]:
    """Return the checks that speak of this thing, by name. Raises UnknownNameError for an unknown kind."""
    if kind == "algorithm":
        return dict(_algorithm_checks(thing))
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    subject = functools.partial(_start_thing, thing) if kind in STARTED else thing
    found: dict[str, Check] = {}
    if KINDS[kind].protocol:
        found["has_all_that_its_protocol_asks"] = functools.partial(_has_protocol, kind, thing)
    if KINDS[kind].form == "component":
        found["has_a_signature_that_can_be_bound"] = functools.partial(_has_bindable_signature, kind, thing)
    found |= {law.__name__: functools.partial(law, subject) for law in LAWS[kind] if applies(law, subject)}
    return found


def _has_bindable_signature(kind: str, thing: Any) -> None:
    """It has a signature that a run can bind: columns by position, options by name, typed and with defaults."""
    check_signature(kind, thing, table=registry().columns)


def _has_protocol(kind: str, thing: Any) -> None:
    """Its class has every method that a run asks of its kind."""
    if callable(thing):
        check_class(kind, thing)
    else:
        check_started(kind, type(thing), thing)


def _start_thing(thing: Any) -> Any:
    return (
        thing()
        if isinstance(thing, type) or inspect.isroutine(thing) or isinstance(thing, functools.partial)
        else thing
    )


def _algorithm_checks(thing: Any) -> Iterator[tuple[str, Check]]:
    """Yield the checks of an algorithm's components with their options, named `advantage.LAW`, `loss.LAW` and so on."""
    algorithm = thing if isinstance(thing, Algorithm) else thing()
    yield "has_a_graph", functools.partial(_has_a_graph, algorithm)
    if not isinstance(algorithm, Algorithm):
        # Another shape of training is at least a graph that resolves.
        return
    chain, settings = chain_estimators(algorithm.chain), tuple(_settings(part) for part in algorithm.chain)
    for law in LAWS["advantage"]:
        if law not in ANY_LAWS and law not in _LAWS_OF_ONE_ESTIMATOR and applies(law, chain):
            yield f"advantage.{law.__name__}", functools.partial(_run_once, law, chain, settings)
    parts = {"loss": algorithm.loss, "value_loss": algorithm.value_loss, "kl": algorithm.kl}
    parts |= {"reduction": algorithm.reduction, "kl_in_reward": algorithm.kl_in_reward}
    parts |= {f"correction_{i + 1}": part for i, part in enumerate(algorithm.corrections)}
    parts |= {f"select_{i + 1}": part for i, part in enumerate(algorithm.selects)}
    kinds_of = {"value_loss": "loss", "kl_in_reward": "kl"}
    for name, part in parts.items():
        if part is None:
            continue
        settings = (_settings(part),)
        kind = kinds_of.get(name, name.rstrip("_0123456789"))
        for law in LAWS[kind]:
            if law not in ANY_LAWS and applies(law, part):
                yield f"{name}.{law.__name__}", functools.partial(_run_once, law, part, settings)


_LAWS_OF_ONE_ESTIMATOR = tuple(
    law for law in LAWS["advantage"] if law.__name__ in ("other_groups_have_no_say", "copies_estimate_the_same")
)


def _has_a_graph(algorithm: Any) -> None:
    """Its graph resolves: nothing that a living node reads is missing."""
    algorithm.graph().resolve()


_RESULTS: dict[tuple[Any, ...], str] = {}


def _settings(part: Any) -> tuple[Any, str]:
    return source_of(part), repr([(name, option.default) for name, option in options(part).items()])


def _run_once(law: Callable[[Any], None], subject: Any, settings: tuple[Any, ...]) -> None:
    """Check a component once in a process for each set of options: presets share most components."""
    key = (law, settings)
    if key not in _RESULTS:
        try:
            law(subject)
            _RESULTS[key] = ""
        except AssertionError as error:
            _RESULTS[key] = str(error) or law.__name__
    if _RESULTS[key]:
        raise AssertionError(_RESULTS[key])


def sentence(kind: str, thing: Any, name: str) -> str:
    """Return the one sentence of a check."""
    function: Any = checks_of(kind, thing)[name]
    while isinstance(function, functools.partial):
        law = next((value for value in function.args if inspect.isfunction(value) and function.func is _run_once), None)
        function = law or function.func
    return (inspect.getdoc(function) or "").split("\n\n")[0]


def check(kind: str, thing: Any) -> list[CheckResult]:
    """Run all checks of a kind on a thing and return their results."""
    return [_run_check(name, run) for name, run in checks_of(kind, thing).items()]


def _run_check(name: str, run: Check) -> CheckResult:
    try:
        run()
    except Exception as error:  # noqa: BLE001 an exception of the thing is a finding like any other
        plain = isinstance(error, AssertionError)
        return CheckResult(
            name, False, (str(error) or "does not hold") if plain else f"{type(error).__name__}: {error}"
        )
    return CheckResult(name, True, "")


def hold(name: str, run: Check, expect_fail: Mapping[str, str]) -> None:
    """Raise AssertionError unless a check holds, or fails as declared; a declared failure that holds is an error."""
    result = _run_check(name, run)
    if name in expect_fail:
        assert not result.ok, f"{name} is declared to fail ({expect_fail[name]}) and holds: take the declaration away"
        return
    assert result.ok, f"{name}: {result.message}"


def declared_checks(kind: str, thing: Any, expect_fail: Mapping[str, str]) -> dict[str, Check]:
    """Return the checks that speak of a thing. Raises ConfigError for a declared failure that is none of them."""
    found = checks_of(kind, thing)
    for name in expect_fail:
        if name not in found:
            raise ConfigError(
                f"expect_fail names {name!r}, which is no check of this {kind}; checks: {', '.join(found)}"
            )
    return found


def conform(kind: str, thing: Any, *, expect_fail: Mapping[str, str] | None = None) -> Callable[..., None]:
    """Return every check of a kind as a pytest test with one parameter each, to be given a name that starts with
    "test".

        test_contract = conform("advantage", mine)

    expect_fail: checks that are known to fail, each with the reason; one that holds after all fails the test.
    Samplers, trainers, weight transfers, environments and trackers are handed over as a function without arguments
    that starts one, a reward manager as one of the reward, everything else as it is registered.

    Raises ConfigError for a declared failure that is no check, UnknownNameError for an unknown kind.
    """
    import pytest

    expected = dict(expect_fail or {})
    checks = declared_checks(kind, thing, expected)

    @pytest.mark.parametrize("name", list(checks))
    def test(name: str) -> None:
        hold(name, checks[name], expected)

    return test


def declared_failures(entry: Entry) -> dict[str, str]:
    """Return the checks that whoever registered a thing declares to fail: `EXPECT_FAIL[kind][name]` of the plugin's
    module.
    """
    module = registry().manager.get_plugin(f"{entry.distribution}:{entry.plugin}")
    table: Mapping[str, Mapping[str, Mapping[str, str]]] = getattr(module, "EXPECT_FAIL", {})
    return dict(table.get(entry.kind, {}).get(entry.name, {}))
