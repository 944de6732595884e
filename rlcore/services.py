"""Checks of services: of their class before they are started, and of all that they return.

What a service returns is checked here, by one function a kind, and nowhere else.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, get_type_hints

import numpy as np
import torch
from torch import Tensor

from rlcore.component import Component, name_of, source_of
from rlcore.errors import ComponentError, ConfigError, DataError, ModelError, RewardError, RunError, counted
from rlcore.event_loop import wait_for
from rlcore.kinds import KINDS
from rlcore.protocols import (
    Completion,
    Environment,
    Episode,
    Graded,
    HoldsWeights,
    Reply,
    Request,
    RewardManager,
    Sample,
    Sampler,
    Stop,
    Trainer,
    WeightTransfer,
)


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
        if inspect.isroutine(value) and (name == "__call__" or not name.startswith("_"))
    }
    return (*sorted(attributes), *sorted(methods))


def check_class(kind: str, factory: Component) -> None:
    """Raise ConfigError for a class that lacks a method of its kind's protocol, before anything is started.

    A function is judged by the class that its return annotation names; without one nothing is known before it is
    called. Attributes may be set in `__init__`, so `check_started` checks them.
    """
    protocol, source = kind_protocol(kind), source_of(factory)
    if protocol is None:
        return
    started_class = source if isinstance(source, type) else _returned_class(source)
    if started_class is None or started_class is protocol:
        return
    missing = [
        name
        for name in protocol_members(protocol)
        if inspect.isroutine(getattr(protocol, name, None)) and not _has_method(started_class, name)
    ]
    abstract = sorted(getattr(started_class, "__abstractmethods__", ()))
    if missing or abstract:
        raise ConfigError(
            f"{_kind(kind)} {name_of(factory)} is not {_article(protocol)}: {_lacks_of(protocol, missing or abstract)}"
        )


def _has_method(made: type, name: str) -> bool:
    # Statically: `getattr` finds `__call__` of every class on its metaclass.
    found = inspect.getattr_static(made, name, None)
    return callable(found) or isinstance(found, classmethod)


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
        raise ConfigError(
            f"{_kind(kind)} {name_of(factory)} returned {type(service).__name__}, which is not {_article(protocol)}: "
            f"{_lacks_of(protocol, missing)}"
        )


def start(kind: str, factory: Component, *arguments: Any, offered: Mapping[str, Any] | None = None) -> Any:
    """Return the service that a factory makes of `arguments` and of those `offered` that it has parameters for.

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


def _article(protocol: type) -> str:
    return f"{'an' if protocol.__name__[0] in 'AEIO' else 'a'} {protocol.__name__}"


def _lacks_of(protocol: type, missing: Sequence[str]) -> str:
    """Return what must be written, and how to get the rest: a protocol's own answers come with it as a base."""
    abstract: frozenset[str] = getattr(protocol, "__abstractmethods__", frozenset())
    written = [name for name in missing if not abstract or name in abstract]
    rest = [name for name in missing if name not in written]
    base = f"rlcore.protocols.{protocol.__name__} as its base brings {', '.join(rest)}" if rest else ""
    return "; ".join(part for part in (_lacks(written) if written else "", base) if part)


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


def check_completion(sampler: Sampler, request: Request, completion: Any, *, vocab_size: int | None = None) -> None:
    """Raise RunError, naming sampler, request and field, for a completion that cannot be trained on.

    It is a Completion of ids of the vocabulary, at most as many as were asked for, with a finite log-probability, a
    kept mass and a version for each, none from the future, and a `Stop`.
    """
    wrong = _fault(sampler, request, completion, vocab_size)
    if wrong:
        raise RunError(f"sampler {sampler_name(sampler)}, request of group {request.group}: {wrong}")


def _fault(sampler: Sampler, request: Request, completion: Any, vocab_size: int | None) -> str:
    if not isinstance(completion, Completion):
        return f"sample returned {type(completion).__name__}; expected Completion"
    fields: dict[str, Any] = {name: getattr(completion, name) for name in ("tokens", *PER_TOKEN)}
    for name, values in fields.items():
        if not isinstance(values, list):
            return f"{name} is {values!r:.40}; expected a list"
    count, room = len(completion.tokens), request.params.max_new_tokens
    for name in PER_TOKEN:
        if len(fields[name]) != count:
            return (
                f"the sampler drew {count} tokens and gave {len(fields[name])} values for {name!r}; it must give one "
                f"for each"
            )
    if count > room:
        return f"{count} tokens were drawn, and {room} were asked for"
    stop: Any = completion.stop
    if not isinstance(stop, Stop):
        return f"stop is {stop!r}; expected a member of Stop: {', '.join(Stop.__members__)}"
    if stop is Stop.ENVIRONMENT_ERROR:
        return "stop is ENVIRONMENT_ERROR, which an environment gives; expected FINISHED, LENGTH or ABORTED"
    return _fault_of_numbers(sampler, completion, vocab_size) if count else ""


def _fault_of_numbers(sampler: Sampler, completion: Completion, vocab_size: int | None) -> str:
    tokens = np.asarray(completion.tokens)
    if tokens.dtype.kind != "i" or int(tokens.min()) < 0 or any(isinstance(t, bool) for t in completion.tokens):
        plain = (t for t in completion.tokens if isinstance(t, bool) or not isinstance(t, int) or not 0 <= t < 2**63)
        return f"tokens holds {next(plain, completion.tokens)!r:.60}; expected ids"
    if vocab_size is not None and int(tokens.max()) >= vocab_size:
        return f"tokens holds the id {int(tokens.max())}; the model's vocabulary is 0 to {vocab_size - 1}"
    for name in ("logprob", "kept_logmass"):
        try:
            values = np.asarray(getattr(completion, name), dtype=np.float64)
        except (TypeError, ValueError):
            return f"{name} holds what is no number: {getattr(completion, name)!r:.60}"
        bad = ~(np.isfinite(values) & (values <= ROUNDING))
        if bad.any():
            return f"{name} holds {float(values[bad][0])!r}; expected a finite logarithm of a probability, at most 0"
    odd = next((v for v in completion.versions if isinstance(v, bool) or not hasattr(v, "__index__")), None)
    if odd is not None or None in completion.versions:
        return f"versions holds {odd!r}; expected the whole number of each token's weights"
    oldest, newest = min(completion.versions), max(completion.versions)
    if newest > sampler.version or oldest < 0:
        wrong = newest if newest > sampler.version else oldest
        return f"versions holds {wrong}; the sampler was last given the weights of version {sampler.version}"
    return ""


PER_TOKEN = ("logprob", "kept_logmass", "versions")
"""Fields of a completion that have a value for each token."""
ROUNDING = 1e-4
"""How far above 0 rounding may take the logarithm of a probability."""


def generate_completions(sampler: Sampler, requests: Sequence[Request]) -> list[Completion]:
    """Return one checked completion per request, in order: all are sampled at once. For use without a coroutine."""

    async def one(request: Request) -> Completion:
        completion = await sampler.sample(request)
        check_completion(sampler, request, completion)
        return completion

    async def together() -> list[Completion]:
        await sampler.resume()
        drawn = list(await asyncio.gather(*map(one, requests)))
        await sampler.pause()
        return drawn

    drawn: list[Completion] = wait_for(together())
    return drawn


def environment_name(environment: Environment) -> str:
    """Return what an environment is called in messages: one in another process by its own class."""
    own = getattr(environment, "class_name", None)
    if own is not None:
        return str(own)
    return environment.__name__ if isinstance(environment, type) else type(environment).__name__


def check_episode(environment: Environment, episode: Any) -> Episode:
    """Return the episode that an environment made. Raises RunError for one that lacks a method of `Episode`."""
    made: Any = type(episode)
    missing = _missing_of_episode(made)
    if missing:
        raise RunError(
            f"environment {environment_name(environment)} returned {type(episode).__name__}, which is not an Episode: "
            f"{_lacks(missing)}"
        )
    checked: Episode = episode
    return checked


@lru_cache
def _missing_of_episode(made: type) -> tuple[str, ...]:
    return tuple(name for name in protocol_members(Episode) if not callable(getattr(made, name, None)))


def check_reply(environment: Environment, reply: Any) -> Reply | None:
    """Return what an episode replied to a turn; text, messages and ids are taken as observations.

    Raises RunError for anything else.
    """
    if isinstance(reply, Reply) and not isinstance(reply.stop, bool):
        raise RunError(
            f"an episode of environment {environment_name(environment)} replied stop={reply.stop!r:.40}; expected "
            f"True or False"
        )
    if reply is None or isinstance(reply, Reply):
        return reply
    if isinstance(reply, str) or (isinstance(reply, Sequence) and reply):
        return Reply(reply)
    raise RunError(
        f"an episode of environment {environment_name(environment)} replied {reply!r:.80}; expected a Reply, or None "
        f"at the end"
    )


def next_rows(order: Any, count: int, size: int) -> list[int]:
    """Return the next `count` rows of an order. Raises DataError for another count or what is no index below `size`."""
    indices = order.next(count)
    name = type(order).__name__
    if not isinstance(indices, Sequence) or len(indices) != count:
        returned = f"{len(indices)} indices" if isinstance(indices, Sequence) else type(indices).__name__
        raise DataError(f"order {name} returned {returned}; {count} were asked for")
    for index in indices:
        if isinstance(index, bool) or not hasattr(index, "__index__") or not 0 <= index < size:
            raise DataError(f"order {name} returned {index!r}; expected an index from 0 to {size - 1}")
    return [int(index) for index in indices]


def sync_weights(transfer: WeightTransfer, source: Trainer, target: Sampler) -> int:
    """Hand a trainer's weights to a sampler, prove that they arrived, and return the version that it then has.

    A sampler that draws from the trainer's own tensors needs no more proof than that. Of any other, each tensor is
    counted and hashed as it is received, before it is fused or cast; where the sampler shows the weights that it holds
    (`weights()`), these are compared as well.

    Raises ComponentError for a version that is no whole number, ModelError naming sampler and tensors where something
    is missing, doubled, altered or of another version.
    """
    name, sampler = type(transfer).__name__, sampler_name(target)
    weights = source.weights()
    shared = shares_weights(target, weights)
    receiving = _Receiving(target)
    sending: Any = _Sending(source, weights)
    version = transfer.sync(sending, target if shared else receiving)
    if isinstance(version, bool) or not isinstance(version, int):
        raise ComponentError(f"weight transfer {name} returned {version!r} from sync; expected the sampler's version")
    wrong = "" if shared else receiving.fault(weights)
    if not wrong and not version == target.version == source.version:
        wrong = (
            f"it holds version {target.version}, sync returned {version}, and the trainer is at version "
            f"{source.version}; `update_weights(weights, version)` takes over the weights and sets `version`"
        )
    if wrong:
        raise ModelError(f"sampler {sampler} does not hold the trainer's weights after weight transfer {name}: {wrong}")
    return version


def sampler_name(sampler: Any) -> str:
    """Return the name of a sampler's class, in whatever process it lives."""
    return str(getattr(sampler, "class_name", type(sampler).__name__))


def shares_weights(sampler: Any, weights: Mapping[str, Tensor]) -> bool:
    """Tell whether a sampler shows that the tensors it draws from are these, in one memory."""
    held = sampler.weights() if isinstance(sampler, HoldsWeights) else {}
    return bool(held) and all(_is_same(weight, weights.get(name)) for name, weight in held.items())


def _is_same(one: Tensor, other: Tensor | None) -> bool:
    """Tell whether two tensors are one memory, seen alike."""
    if other is None:
        return False
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()


def digest(weight: Tensor) -> str:
    """Return the SHA-256 of a tensor's shape, type and bytes."""
    found = hashlib.sha256(f"{tuple(weight.shape)} {weight.dtype}".encode())
    # Through bytes: NumPy has no bfloat16.
    found.update(weight.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


@dataclass
class Receipt:
    """What a sampler received: the digest of each tensor by name, and what is odd about it.

    `other` are those of the weights that the sampler shows which have other values than what it received.
    """

    digests: dict[str, str] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, sampler: Any, weights: Iterable[tuple[str, Tensor]], version: int) -> Receipt:
        """Give weights to a sampler of this process; each is counted and hashed as it is read."""
        receipt = cls()
        given: dict[str, Tensor] = {}
        sampler.update_weights(receipt._counted(weights, given), version)
        held = sampler.weights() if isinstance(sampler, HoldsWeights) else {}
        receipt.other = [n for n, w in held.items() if n in given and not torch.equal(w, given[n].to(w))]
        return receipt

    def _counted(self, weights: Iterable[tuple[str, Tensor]], given: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        for name, weight in weights:
            if name in self.digests:
                self.twice.append(name)
            self.digests[name], given[name] = digest(weight), weight
            yield name, weight

    def fault(self, weights: Mapping[str, Tensor]) -> str:
        """Return what is wrong with what was received of these; "" for nothing."""
        missing = [name for name in weights if name not in self.digests]
        unknown = [name for name in self.digests if name not in weights]
        altered = [n for n, found in self.digests.items() if n in weights and found != digest(weights[n])]
        found = {"not received": missing, "not the trainer's": unknown, "altered": altered, "sent twice": self.twice}
        said = "; ".join(f"{what}: {_listed(names)}" for what, names in found.items() if names)
        if said:
            return f"it received {len(self.digests)} tensors of {len(weights)}; {said}"
        if self.other:
            return f"{len(self.other)} of its {len(weights)} tensors have other values: {_listed(self.other)}"
        return ""


class _Receiving:
    """Stands for a sampler in a transfer, to keep the receipt of what `update_weights` is given."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self._receipt: Receipt | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)

    def update_weights(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Give the weights to the sampler, in whatever process it lives."""
        elsewhere = getattr(self._sampler, "receive", None)
        self._receipt = elsewhere(weights, version) if elsewhere else Receipt.of(self._sampler, weights, version)

    def fault(self, weights: Mapping[str, Tensor]) -> str:
        """Return what is wrong with what was received; "" for nothing."""
        return self._receipt.fault(weights) if self._receipt else "its update_weights was never called"


class _Sending:
    """Stands for a trainer in a transfer: its weights are asked for once a sync, since they may live elsewhere."""

    def __init__(self, trainer: Any, weights: Mapping[str, Tensor]) -> None:
        self._trainer, self._weights = trainer, weights

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trainer, name)

    def weights(self) -> Mapping[str, Tensor]:
        """Return the parameters by name."""
        return self._weights


def _listed(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def first_refused(manager: RewardManager, rows: Iterable[Mapping[str, Any]]) -> tuple[int, ValueError] | None:
    """Return the number (from 0) of the first row that a manager refuses, and what it says; None if it refuses none."""
    for number, row in enumerate(rows):
        try:
            manager.check_row(row)
        except ValueError as error:
            return number, error
    return None
