"""Calls of plain functions by the names of their parameters, and the reading of what they return."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import logging
import math
import numbers
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from rlcore.component import name_of, source_of
from rlcore.data import target_of
from rlcore.errors import ConfigError, RewardError, nearest
from rlcore.protocols import Graded, Sample

SAMPLE_NAMES = ("prompt", "completion", "solution_str", "messages", "conversation")
"""Names that always mean the sample at hand, whatever columns the data has."""
BATCH_NAMES = ("prompts", "completions")
"""Names that a function of many samples has for its lists of two of these."""
ALIASES = {"ground_truth": "target", "target": "ground_truth"}
ABSENT_DEFAULTS: Mapping[str, Any] = {"data_source": "", "extra_info": {}}
"""What a function is given for these where the data has none: verl's signature names both, used or not."""

log = logging.getLogger("rlcore")

Function = TypeVar("Function", bound=Callable[..., Any])


class UnscoredError(RewardError):
    """A row without a grade although the reward raised nothing: its own line says it all, a traceback nothing more."""


class Caller:
    """A reward function with its parameters looked up once.

    A parameter is filled by its name: `completion` or `solution_str`, `prompt`, `messages`, `conversation`, `target`
    or `ground_truth`, or any column of the data. One with a default takes its column where there is one; a keyword-only
    one with a default is an option and never filled. `**kwargs` gets every further column. A function that asks for
    `data_source` or `extra_info` gets "" or {} where the data has none, which is logged once.

    A function with a parameter `completions` is called once for many samples, as TRL does: with lists, one entry a
    sample, of `prompts`, `completions` and the columns that it names (None where a row has none); it returns a list.
    Prompt and completion of a conversation are lists of messages there.
    """

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        self.function = function
        self.name = name or name_of(function)
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError) as error:  # of what is written in C
            raise ConfigError(
                f"reward {self.name!r}: its parameters cannot be known ({error}); give a Python function that calls it"
            ) from error
        self.takes_rest = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        filled = [parameter for parameter in parameters if is_filled(parameter)]
        self.required = tuple(parameter.name for parameter in filled if parameter.default is parameter.empty)
        self.optional = tuple(parameter.name for parameter in filled if parameter.default is not parameter.empty)
        self.options = frozenset(parameter.name for parameter in parameters if not is_filled(parameter))
        self.positional = tuple(
            parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_ONLY
        )
        plain = inspect.isroutine(source_of(function))
        self.absent_defaults = {
            name: ABSENT_DEFAULTS[name] for name in self.required if plain and name in ABSENT_DEFAULTS
        }
        self.asynchronous = is_asynchronous(function)
        self.batched = "completions" in (*self.required, *self.optional)
        self.check_row = optional_attribute(function, "check_row")
        self.bounded = bool(optional_attribute(function, "bounded"))

    def check(self, columns: Collection[str]) -> None:
        """Raise RewardError if the function needs what neither the sample nor a data set of these columns has."""
        self._warn_of_defaults(self.absent_defaults.keys() - set(columns))
        check_columns(
            self.name,
            [name for name in self.required if name not in self.absent_defaults],
            (*columns, *(BATCH_NAMES if self.batched else ())),
        )

    def arguments(self, sample: Sample, *, copied: bool = True) -> tuple[list[Any], dict[str, Any]]:
        """Return what the function is called with, by place and by name; `copied`: its own to change, also inside
        lists.

        Raises:
            UnscoredError: this row has not got a column that the function needs.
        """
        values = self._values(sample)
        missing = [name for name in self.required if name not in values]
        if missing:
            raise UnscoredError(f"this row has no {missing[0]!r}; it has: {', '.join(sorted(values))}")
        return self._select(values, copied=copied)

    def batch_arguments(self, samples: Sequence[Sample], *, copied: bool = True) -> tuple[list[Any], dict[str, Any]]:
        """Return what a function of many samples is called with, by place and by name: lists, one entry a sample."""
        rows = [self._values(sample) for sample in samples]
        names = dict.fromkeys(name for row in rows for name in row if name not in SAMPLE_NAMES)
        values: dict[str, Any] = {name: [row.get(name) for row in rows] for name in (*names, *SAMPLE_NAMES)}
        values["prompts"] = [s.prompt if s.messages is None else list(s.messages) for s in samples]
        values["completions"] = [
            s.completion if s.messages is None else [{"role": "assistant", "content": s.completion}] for s in samples
        ]
        return self._select(values, copied=copied)

    def _values(self, sample: Sample) -> dict[str, Any]:
        values = sample_values(sample)
        absent = self.absent_defaults.keys() - values.keys()
        if absent:
            self._warn_of_defaults(absent)
            values.update((name, self.absent_defaults[name]) for name in absent)
        return values

    def _warn_of_defaults(self, absent: AbstractSet[str]) -> None:
        if absent:
            defaults = ", ".join(f"{name}={self.absent_defaults[name]!r}" for name in sorted(absent))
            warn_once(f"reward {self.name!r} is given {defaults}: the data has no such column")

    def _select(self, values: dict[str, Any], *, copied: bool) -> tuple[list[Any], dict[str, Any]]:
        chosen = {name: values[name] for name in (*self.required, *self.optional) if name in values}
        if self.takes_rest:
            # A function of many samples has its own words for these.
            known = {*chosen, *self.options, *(SAMPLE_NAMES if self.batched else ("conversation",))}
            chosen.update((name, value) for name, value in values.items() if name not in known)
        if copied:
            # The data set serves the whole run, and the rows of a group share its values: a change must not reach it.
            chosen = {name: own_copy(value) for name, value in chosen.items()}
        leading = list(itertools.takewhile(chosen.__contains__, self.positional))
        first = [chosen[name] for name in leading]
        # One behind a gap cannot be passed at all: it keeps its default.
        return first, {name: value for name, value in chosen.items() if name not in self.positional}


def check_columns(reward: str, required: Iterable[str], columns: Iterable[str]) -> None:
    """Raise RewardError for the first name that a reward reads and neither these columns nor a sample have."""
    known = {*columns, *SAMPLE_NAMES}
    for name in required:
        if name not in known and ALIASES.get(name) not in known:
            listed = ", ".join(sorted(known | {other for other, one in ALIASES.items() if one in known}))
            raise RewardError(
                f"reward {reward!r} reads {name!r}, which the data does not have; to be had: {listed}."
                f"{nearest(name, known)}"
            )


def display_name(reward: Any) -> str:
    """Return the name that a reward is registered under, else its own: people know `math`, not the class behind it."""
    from rlcore.config.specs import registered_name  # only what is shown by name needs the registry

    name = registered_name("reward", reward)
    return name if isinstance(name, str) else name_of(reward)


@functools.cache
def warn_once(message: str) -> None:
    """Log a warning the first time in this process: every manager would log it again."""
    log.warning("%s", message)


def check_positive(**options: float | None) -> None:
    """Raise ConfigError for an option of a reward that is not above 0; None is no limit."""
    for name, value in options.items():
        if value is not None and not value > 0:
            raise ConfigError(f"reward.{name}={value:g}; allowed: above 0")


def own_copy(value: Any) -> Any:
    """Return the value with every list, dict, set and tuple of it made anew; what cannot change is not copied."""
    if isinstance(value, dict):
        return {key: own_copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [own_copy(item) for item in value]
    if type(value) is tuple:
        return tuple(own_copy(item) for item in value)
    return copy.deepcopy(value) if isinstance(value, set | bytearray) or hasattr(value, "dtype") else value


def is_filled(parameter: inspect.Parameter) -> bool:
    """Return whether a parameter is filled from the sample rather than being an option or a rest."""
    if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
        return False
    return parameter.kind is not parameter.KEYWORD_ONLY or parameter.default is parameter.empty


def checks_rows(check: Callable[[Mapping[str, Any]], object]) -> Callable[[Function], Function]:
    """Return a decorator that gives a reward its `check_row`: asked about the columns of every row before the first
    rollout.

    `check` raises ValueError where no completion could ever be graded against the row: a target that is missing or
    unreadable, a source that is not known.
    """

    def attach(function: Function) -> Function:
        function.check_row = check  # type: ignore[attr-defined]
        return function

    return attach


def checks_target(read: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """Return a decorator like `checks_rows`, for rewards whose target `read` reads or refuses with ValueError."""
    return checks_rows(lambda data: read(target_of(data)))


def bounded(function: Function) -> Function:
    """Mark a reward whose work is bounded by itself: it is called in this process, without a limit."""
    function.bounded = True  # type: ignore[attr-defined]
    return function


def optional_attribute(function: Callable[..., Any], name: str) -> Any:
    """Return an optional attribute of a reward, also of a function under partials; None where it has none."""
    while isinstance(function, functools.partial) and name not in vars(function):
        function = function.func
    return getattr(function, name, None)


def is_asynchronous(function: Callable[..., Any]) -> bool:
    """Return whether calling it gives a coroutine, also through partials and objects with `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def sample_values(sample: Sample) -> dict[str, Any]:
    """Return everything that a reward can ask of a sample, by name."""
    values = dict(sample.data)
    for name, other in ALIASES.items():
        if name not in values and other in sample.data:
            values[name] = sample.data[other]
    values.update(
        prompt=sample.prompt,
        completion=sample.completion,
        solution_str=sample.completion,
        messages=sample.messages,
        conversation=sample.conversation,
    )
    return values


def read_result(result: Any) -> Graded:
    """Return the grade in what a reward returned: a number, None (does not apply: NaN without error), or a dict with
    `score`.

    Numbers beside `score` become components, `extracted` is what was read as the answer (None: nothing was); other
    values of the dict are for the function's own logs.

    Raises:
        UnscoredError: anything else, or a score or component that is not finite.
    """
    if isinstance(result, Mapping):
        if "score" not in result:
            raise UnscoredError(f"returned a dict without 'score'; its keys: {', '.join(map(str, result)) or 'none'}")
        components = {
            str(name): finite_number(value, f"component {name!r}")
            for name, value in result.items()
            if name not in ("score", "extracted") and is_number(value)
        }
        score, read = result["score"], result.get("extracted")
        return Graded(
            math.nan if score is None else finite_number(score, "score"),
            components,
            extracted=None if read is None else str(read),
        )
    return Graded(math.nan if result is None else finite_number(result, "score"))


def read_outcome(result: Any) -> Graded | BaseException:
    """Return what one call gave, as its grade, or as what it raised or failed for."""
    if isinstance(result, BaseException):
        return result
    try:
        return read_result(result)
    except Exception as error:  # noqa: BLE001 - a stranger's type may raise anything while it is read
        return error


def read_outcomes(results: Any, count: int) -> list[Graded | BaseException]:
    """Return what one call for so many samples gave, as one outcome a sample; all fail if it is no list of so many."""
    if isinstance(results, BaseException):
        return [results] * count
    expected = f"expected a list of {count}, one a completion"
    try:
        entries = len(results)
        listed = [] if isinstance(results, str | bytes | Mapping | AbstractSet) else list(results)
    except Exception:  # noqa: BLE001 - no length, or an array of no dimension
        return [UnscoredError(f"returned {describe_value(results)}; {expected}")] * count
    if len(listed) != count:
        return [UnscoredError(f"returned {type(results).__name__} of {entries} entries; {expected}")] * count
    return [read_outcome(result) for result in listed]


def is_number(value: Any) -> bool:
    """Return whether it is a number, Python's or numpy's, or a tensor of one element."""
    if isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real):
        return False  # numpy's would lose their imaginary part without an error
    return not isinstance(value, str | bytes | list | dict) and hasattr(value, "__float__")


def describe_value(value: Any) -> str:
    """Return the type of what was returned and how it is written, shortened, also where it cannot be written."""
    try:
        return f"{type(value).__name__} {value!r:.60}"
    except Exception:  # noqa: BLE001 - a stranger's type may raise anything
        return type(value).__name__


def finite_number(value: Any, what: str) -> float:
    """Return the value as a finite float. Raises UnscoredError if it is none."""
    if not is_number(value):
        raise UnscoredError(
            f"returned {describe_value(value)} as {what}; expected a float, None or a dict with 'score'"
        )
    try:
        number = float(value)
    except Exception as error:  # a stranger's type may raise anything
        raise UnscoredError(
            f"returned {describe_value(value)} as {what}, which is no one real number: {error}"
        ) from error
    if not math.isfinite(number):
        raise UnscoredError(f"returned {number} as {what}; expected a finite number, or None where it does not apply")
    return number
