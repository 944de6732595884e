"""The conformance kit: runs the laws of a kind on a component or service, as a list (`check`) or a test (`conform`).

A check is a function of the thing that raises AssertionError. Which checks there are depends on the kind and on the
columns that the thing reads.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from rlcore.algorithm import Algorithm
from rlcore.component import as_tuple, options, source_of
from rlcore.component import check as check_signature
from rlcore.errors import ConfigError, unknown
from rlcore.kinds import KINDS
from rlcore.registry import Entry, registry, resolve
from rlcore.services import check_class, check_started
from rlcore.testing.laws import ANY_LAWS, LAWS, applies
from rlcore.testing.laws.estimators import other_groups_have_no_say

Check = Callable[[], None]
STARTED = ("sampler", "trainer", "environment", "tracker", "weight_transfer")
"""Kinds that are handed over as something to start: a class or function without arguments, or a started thing."""
_ALONE = ("algorithm", "optimizer", "schedule", "weight_transfer", "experiment")
"""Kinds besides components whose things can be checked as they are registered."""


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
    checks: dict[str, Check] = {}
    if KINDS[kind].protocol:
        checks["has_all_that_its_protocol_asks"] = functools.partial(_has_protocol, kind, thing)
    if KINDS[kind].form == "component":
        checks["has_a_signature_that_can_be_bound"] = functools.partial(_has_bindable_signature, kind, thing)
    return checks | {law.__name__: functools.partial(law, subject) for law in LAWS[kind] if applies(law, subject)}


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
    starts = isinstance(thing, type | functools.partial) or inspect.isroutine(thing)
    return thing() if starts else thing


def _algorithm_checks(thing: Any) -> Iterator[tuple[str, Check]]:
    """Yield the checks of an algorithm's components with their options, named `advantage.LAW`, `loss.LAW` and so on."""
    algorithm = thing if isinstance(thing, Algorithm) else thing()
    yield "has_a_graph", functools.partial(_has_a_graph, algorithm)
    if not isinstance(algorithm, Algorithm):
        # Another shape of training is at least a graph that resolves.
        return
    for slot, kind, component in _components(algorithm):
        for law in LAWS[kind]:
            # An algorithm may scale by the batch's deviation: then other groups do have a say in a group's advantage.
            if law not in (*ANY_LAWS, other_groups_have_no_say) and applies(law, component):
                yield f"{slot}.{law.__name__}", functools.partial(_run_once, law, component)


def _components(algorithm: Algorithm) -> Iterator[tuple[str, str, Any]]:
    """Yield slot, kind and component of an algorithm; of several in one slot the second is named `advantage_2`."""
    slots = {
        "advantage": ("advantage", algorithm.chain),
        "loss": ("loss", (algorithm.loss,)),
        "value_loss": ("loss", as_tuple(algorithm.value_loss)),
        "reduction": ("reduction", (algorithm.reduction,)),
        "kl": ("kl", as_tuple(algorithm.kl)),
        "kl_in_reward": ("kl", as_tuple(algorithm.kl_in_reward)),
        "correction": ("correction", algorithm.corrections),
        "select": ("select", algorithm.selects),
    }
    for slot, (kind, components) in slots.items():
        for number, component in enumerate(components, 1):
            yield (slot if number == 1 else f"{slot}_{number}"), kind, component


def _has_a_graph(algorithm: Any) -> None:
    """Its graph resolves: nothing that a living node reads is missing."""
    algorithm.graph().resolve()


_RESULTS: dict[tuple[Any, ...], str] = {}


def _run_once(law: Callable[[Any], None], component: Any) -> None:
    """Check a component once in a process for each set of options: presets share most components."""
    key = (law, source_of(component), repr([(name, option.default) for name, option in options(component).items()]))
    if key not in _RESULTS:
        try:
            law(component)
            _RESULTS[key] = ""
        except AssertionError as error:
            _RESULTS[key] = str(error) or law.__name__
    if _RESULTS[key]:
        raise AssertionError(_RESULTS[key])


def check(kind: str, thing: Any) -> list[CheckResult]:
    """Run all checks of a kind on a thing and return their results."""
    return [_run_check(name, run) for name, run in checks_of(kind, thing).items()]


def _run_check(name: str, run: Check) -> CheckResult:
    try:
        run()
    except Exception as error:  # noqa: BLE001 an exception of the thing is a finding like any other
        message = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        return CheckResult(name, False, message or "does not hold")
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
    checks = checks_of(kind, thing)
    for name in expect_fail:
        if name not in checks:
            raise ConfigError(
                f"expect_fail names {name!r}, which is no check of this {kind}; checks: {', '.join(checks)}"
            )
    return checks


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


def registered_checks(distribution: str) -> Iterator[tuple[Entry, str, Check]]:
    """Yield entry, name and check for each check of everything that a distribution registered.

    Kinds that need a reward, a model or a network to be started (managers, samplers, trackers, ...) are left out.
    """
    for entry in registry().entries():
        if entry.distribution == distribution and (KINDS[entry.kind].form == "component" or entry.kind in _ALONE):
            imported = isinstance(entry.thing, str) and KINDS[entry.kind].form != "file"
            thing = resolve(entry.thing) if imported else entry.thing
            for name, run in declared_checks(entry.kind, thing, declared_failures(entry)).items():
                yield entry, name, run
