"""Which functions of the shelf are mutated, and what may catch a mutant: the kit, recorded cases, plain versions."""

import functools
import importlib
import inspect
import itertools
from pathlib import Path

from hypothesis import Phase, settings

from rlcore.component import source_of
from rlcore.registry import registry
from rlcore.testing.kit import checks_of
from rlcore_algorithms.parity import judge_cases, read_cases
from tests.testing.mutation import alive

HERE = Path(__file__).parent
PARITY = HERE.parent / "parity"
KINDS = ("advantage", "loss", "reduction", "kl", "correction", "select")


def _functions():
    """Each function of the shelf, with the kind of the components that it is part of, and the maths under them."""
    seen = {}
    for kind in KINDS:
        for entry in registry().entries(kind):
            if entry.distribution == "rlcore":
                source = source_of(registry().get(kind, entry.name))
                seen.setdefault(source, set()).add((kind, entry.name))
                for helper in _helpers(source):
                    seen.setdefault(helper, set()).add((kind, entry.name))
    return seen


def _helpers(source):
    """The private functions of a component's own module."""
    module = importlib.import_module(source.__module__)
    return [
        thing
        for name, thing in vars(module).items()
        if inspect.isfunction(thing)
        and thing.__module__ == module.__name__
        and name.startswith("_")
        and not name.startswith(("_check", "_looks", "_bounds", "_some_", "_time_major", "_record"))
    ]


SHELF = [(function, users) for function, users in _functions().items() if inspect.isfunction(function)]
USERS = dict(SHELF)


@functools.cache
def _cases():
    found = []
    for name in ("recorded_verl.json", "recorded_trl.json"):
        cases, _ = read_cases(PARITY / name)
        found += [case for case in cases if not case.get("raises")]
    return found


@functools.cache
def _sound():
    """Checks that hold without a mutant; cheap ones first."""
    return {user: list(checks_of(user[0], registry().get(*user)).items()) for users in USERS.values() for user in users}


@functools.cache
def _matched():
    return {v.id for v in judge_cases(_cases()) if v.state == "matched"}


@functools.cache
def _plain():
    """Every test against a plain NumPy version: its source, and a call for each of its parameters."""
    found = []
    paths = [*sorted(set(PARITY.glob("test_*.py")) - {PARITY / "test_recorded.py"}), HERE / "test_by_hand.py"]
    for path in paths:
        module = importlib.import_module(f"tests.{path.parent.name}.{path.stem}")
        for name, test in vars(module).items():
            if name.startswith("test_") and callable(test):
                if hasattr(test, "_hypothesis_internal_use_settings"):
                    # Found is enough; what the smallest example is does not matter here.
                    given = test._hypothesis_internal_use_settings
                    test._hypothesis_internal_use_settings = settings(given, phases=(Phase.explicit, Phase.generate))
                inner = getattr(getattr(test, "hypothesis", None), "inner_test", test)
                found += [(f"{name}", inspect.getsource(inner), call) for call in _calls(test)]
    return found


def _calls(test):
    """The test with every combination of its parameters bound."""
    axes = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            names = mark.args[0]
            names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
            rows = [
                getattr(row, "values", row) if len(names) > 1 or hasattr(row, "values") else (row,)
                for row in mark.args[1]
            ]
            axes.append([dict(zip(names, row, strict=True)) for row in rows])
    for combination in itertools.product(*axes):
        yield functools.partial(test, **{name: value for part in combination for name, value in part.items()})


def _speaks_of(source, call, users, function):
    """Whether a test is about a component: it names it, or is handed it."""
    names = {name for _, name in users} | {source_of(registry().get(*user)).__name__ for user in users}
    handed = repr(call.keywords) if isinstance(call, functools.partial) else ""
    return any(name in source or name in handed for name in (*names, function.__name__))


def killed_by(mutant):
    """What catches a mutant: the name of a check or of a recorded case, or None."""
    _matched()
    with alive(mutant):
        for user in sorted(USERS[mutant.function]):
            for name, run in _sound()[user]:
                try:
                    run()
                except Exception as error:
                    return f"kit: {name}: {type(error).__name__}"
        for verdict in judge_cases(_cases()):
            if verdict.state != "matched" and verdict.id in _matched():
                return f"recorded: {verdict.id}"
        for name, source, call in _plain():
            if _speaks_of(source, call, USERS[mutant.function], mutant.function):
                try:
                    call()
                except Exception as error:
                    return f"plain: {name}: {type(error).__name__}"
    return None
