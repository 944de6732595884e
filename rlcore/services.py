"""Services where they enter: their class is held against its protocol, and so is whatever they return.

One function a kind: what comes back is checked here and trusted everywhere else.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, get_type_hints

from rlcore.component import Component, name_of, source_of
from rlcore.errors import ComponentError, ConfigError, DataError, RewardError, RunError, counted
from rlcore.kinds import KINDS
from rlcore.protocols import Completion, Graded, Request, RewardManager, Sample, Sampler


def kind_protocol(kind: str) -> type | None:
    """Return the protocol that what a factory of this kind returns must satisfy; None for a kind without one."""
    module, _, name = KINDS[kind].protocol.partition(":")
    return getattr(importlib.import_module(module), name) if module else None


def protocol_members(protocol: type) -> tuple[str, ...]:
    """Return the names of a protocol's attributes and methods, attributes first."""
    attributes = {
        name for base in protocol.__mro__ if getattr(base, "_is_protocol", False) for name in base.__annotations__
    }
    methods = {
        name
        for base in protocol.__mro__
        if getattr(base, "_is_protocol", False) and base is not Protocol
        for name, value in vars(base).items()
        if inspect.isroutine(value) and not name.startswith("_")
    }
    return (*sorted(attributes), *sorted(methods))


def check_class(kind: str, factory: Component) -> None:
    """Raise ConfigError for a class that lacks a method of its kind's protocol, before anything is started.

    A function is judged by the class that its return annotation names; without one nothing is known before it is
    called. Attributes may be set in `__init__`, so that they are judged once it is started.
    """
    protocol, source = kind_protocol(kind), source_of(factory)
    if protocol is None:
        return
    made = source if isinstance(source, type) else _returned_class(source)
    if made is None or made is protocol:
        return
    missing = [
        name
        for name in protocol_members(protocol)
        if inspect.isroutine(getattr(protocol, name, None)) and not callable(getattr(made, name, None))
    ]
    abstract = sorted(getattr(made, "__abstractmethods__", ()))
    if missing or abstract:
        raise ConfigError(
            f"{_kind(kind)} {name_of(factory)} is not a {protocol.__name__}: {_lacks(missing or abstract)}"
        )


def _returned_class(function: Any) -> type | None:
    try:
        returned = get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001 - an annotation that cannot be read tells nothing here; binding it will say so
        return None
    return returned if isinstance(returned, type) else None


def check_started(kind: str, factory: Component, service: Any) -> None:
    """Raise ConfigError for a started service that lacks a member of its kind's protocol, naming what it lacks."""
    protocol = kind_protocol(kind)
    if protocol is None:
        return
    missing = [name for name in protocol_members(protocol) if not hasattr(service, name)]
    if missing:
        article = "an" if protocol.__name__[0] in "AEIO" else "a"
        raise ConfigError(
            f"{_kind(kind)} {name_of(factory)} returned {type(service).__name__}, which is not {article} "
            f"{protocol.__name__}: "
            f"{_lacks(missing)}"
        )


def start(kind: str, factory: Component, *arguments: Any, offered: Mapping[str, Any] | None = None) -> Any:
    """Return the service that a factory makes of `arguments` and, by name, what it asks for of what is `offered`.

    Raises ConfigError for one that is not what its kind's protocol says.
    """
    check_class(kind, factory)
    parameters = inspect.signature(factory).parameters.values()
    asked = {p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}
    service = factory(*arguments, **{name: value for name, value in (offered or {}).items() if name in asked})
    check_started(kind, factory, service)
    return service


def _kind(kind: str) -> str:
    return kind.replace("_", " ")


def _lacks(missing: Sequence[str]) -> str:
    listed = ", ".join(missing[:-1]) + " and " + missing[-1] if len(missing) > 1 else missing[0]
    return f"it lacks {listed}"


# -- what services return


def grade_samples(manager: RewardManager, samples: Sequence[Sample]) -> list[Graded]:
    """Return one grade per sample from a manager; plain numbers are taken as scores, None as unscored.

    Raises RewardError for another count, or for what is neither a grade nor a number.
    """
    grades = manager.score(samples)
    name = type(manager).__name__
    if isinstance(grades, str | bytes | Mapping) or not hasattr(grades, "__len__"):
        raise RewardError(f"reward manager {name} returned {type(grades).__name__}; score returns a list of Graded")
    if len(grades) != len(samples):
        raise RewardError(
            f"reward manager {name} returned {counted(len(grades), 'grade')} for {counted(len(samples), 'sample')}"
        )
    return [_grade(name, place, grade) for place, grade in enumerate(grades)]


def _grade(manager: str, place: int, grade: Any) -> Graded:
    if isinstance(grade, Graded):
        return grade
    if grade is None:
        return Graded(float("nan"))
    try:
        return Graded(float(grade))
    except (TypeError, ValueError):
        raise RewardError(
            f"reward manager {manager} returned {type(grade).__name__} for sample {place}; expected Graded(score=...) "
            f"or a number"
        ) from None


def generate_completions(sampler: Sampler, requests: Sequence[Request]) -> list[Completion]:
    """Return one completion per request from a sampler.

    Raises RunError for another count, for what is no Completion, and for one without a log-probability per token.
    """
    found = sampler.generate(requests)
    name = type(sampler).__name__
    if not isinstance(found, list | tuple) or len(found) != len(requests):
        count = len(found) if isinstance(found, list | tuple) else type(found).__name__
        raise RunError(
            f"sampler {name} returned {count} completions for {len(requests)} requests; expected one for each"
        )
    for place, completion in enumerate(found):
        if not isinstance(completion, Completion):
            raise RunError(
                f"sampler {name} returned {type(completion).__name__} for request {place}; expected Completion"
            )
        if len(completion.logprob) != len(completion.tokens):
            raise RunError(
                f"sampler {name} returned {len(completion.tokens)} tokens and {len(completion.logprob)} "
                f"log-probabilities for request {place}; expected one for each token"
            )
    return list(found)


def next_rows(order: Any, count: int, size: int) -> list[int]:
    """Return the next `count` rows of an order. Raises DataError for another count or what is no index below `size`."""
    indices = order.next(count)
    name = type(order).__name__
    if not isinstance(indices, Sequence) or len(indices) != count:
        found = f"{len(indices)} indices" if isinstance(indices, Sequence) else type(indices).__name__
        raise DataError(f"order {name} returned {found}; {count} were asked for")
    for index in indices:
        if isinstance(index, bool) or not hasattr(index, "__index__") or not 0 <= index < size:
            raise DataError(f"order {name} returned {index!r}; expected an index from 0 to {size - 1}")
    return [int(index) for index in indices]


def sync_weights(transfer: Any, source: Any, target: Any) -> int:
    """Return the version that a sampler has after a sync. Raises ComponentError for what is no whole number."""
    version = transfer.sync(source, target)
    if isinstance(version, bool) or not isinstance(version, int):
        raise ComponentError(
            f"weight transfer {type(transfer).__name__} returned {version!r} from sync; expected the sampler's version"
        )
    return version
