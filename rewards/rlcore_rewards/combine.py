"""Rewards made of rewards: a weighted sum, one behind another, one for each source of the data.

A manager calls the parts itself, each where it belongs; a combination says only which are asked and what they add up
to. Parts are written by name, `{name: NAME, option: value}`, or given as functions.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any

from rlcore.component import Component, OfKind, started
from rlcore.errors import ConfigError, DataError, nearest
from rlcore.protocols import Graded, Sample
from rlcore_rewards.calling import Caller, NotGradedError, awaited, check_columns, grade

Wait = Callable[[], list[Graded]]
Begin = Callable[[Sequence[Sample]], Wait]
Reward = Annotated[Component, OfKind("reward")]


class Combination:
    """What combinations have in common: their parts, and that they can be called alone, in this process.

    `checks_rows`: whether `asked` has something to say about a row, whatever the parts have.
    """

    checks_rows = False

    def __init__(self, parts: Mapping[str, Any], key: str) -> None:
        self.parts = {str(name): reward_of(part, f"{key}.{name}") for name, part in parts.items()}

    def begin(self, samples: Sequence[Sample], parts: Mapping[str, Begin]) -> Wait:
        """Begin what the parts are asked; what is returned waits for the grades of the samples, in order."""
        raise NotImplementedError

    def asked(self, data: Mapping[str, Any]) -> Iterable[str]:
        """Which parts may be asked for this row. Raises DataError if none can be."""
        return self.parts

    def check(self, columns: Collection[str]) -> None:
        """Raise RewardError if the combination itself reads a column that is not there."""

    def __call__(self, completion: str, **row: Any) -> dict[str, Any]:
        """One completion's score, parts and answer. Raises what a part raises."""
        sample = Sample(row.get("prompt", ""), completion, row.get("messages"), row)
        [graded] = self.begin([sample], {name: _alone(name, part) for name, part in self.parts.items()})()
        if graded.error is not None:
            raise NotGradedError(graded.error)
        score = None if math.isnan(graded.score) else graded.score
        return {"score": score, **graded.parts, "extracted": graded.extracted}


class Weighted(Combination):
    """The weighted sum of several rewards. A part that does not apply is left out; without any the row is unscored.

    A part of weight 0 is called and reported, and adds nothing; where only such parts apply, the row is unscored.

    Args:
        parts: rewards by name; the names are those of the parts of the score.
        weights: of the parts, by name; 1 where it says nothing.
    """

    def __init__(self, *, parts: dict[str, Any] | None = None, weights: dict[str, float] | None = None) -> None:
        super().__init__(parts or {}, "reward.parts")
        if not self.parts:
            raise ConfigError("no reward to grade with; give rewards by name: reward.parts={answer: NAME, form: NAME}")
        for name, weight in (weights or {}).items():
            if name not in self.parts:
                listed = ", ".join(self.parts)
                raise ConfigError(f"reward.weights.{name} weighs no part; parts: {listed}.{nearest(name, self.parts)}")
            if not math.isfinite(weight):
                raise ConfigError(f"reward.weights.{name}={weight}; expected a finite number")
        self.weights = {name: (weights or {}).get(name, 1.0) for name in self.parts}

    def begin(self, samples: Sequence[Sample], parts: Mapping[str, Begin]) -> Wait:
        """All parts at once."""
        waits = {name: begin(samples) for name, begin in parts.items()}

        def wait() -> list[Graded]:
            columns = [wait() for wait in waits.values()]
            return [self.sum(dict(zip(waits, row, strict=True))) for row in zip(*columns, strict=True)]

        return wait

    def sum(self, grades: Mapping[str, Graded]) -> Graded:
        """One row's grades as one."""
        applies = [name for name, one in grades.items() if not math.isnan(one.score)]
        # What only is reported must not make a 0 of a row that none of the others could grade.
        counts = any(self.weights[name] for name in applies) or (applies and not any(self.weights.values()))
        scores = [self.weights[name] * grades[name].score for name in applies]
        return joined(grades, math.fsum(scores) if counts else math.nan)


class Gated(Combination):
    """One reward behind another: `reward` is asked only where `gate` scores at least `threshold`.

    A gate that does not apply holds nothing back; a gate that fails unscores the row.

    Args:
        gate: what is asked first.
        reward: what scores the row if the gate lets it pass.
        threshold: the least score of the gate that lets a row pass.
        otherwise: the score of a row that it does not let pass.
    """

    def __init__(
        self,
        *,
        gate: Reward | None = None,
        reward: Reward | None = None,
        threshold: float = 1.0,
        otherwise: float = 0.0,
    ) -> None:
        for name, part in {"gate": gate, "reward": reward}.items():
            if part is None:
                raise ConfigError(f"reward.{name} must be set: gated has a gate and the reward behind it")
        super().__init__({"gate": gate, "reward": reward}, "reward")
        self.threshold = threshold
        self.otherwise = otherwise

    def begin(self, samples: Sequence[Sample], parts: Mapping[str, Begin]) -> Wait:
        """The gate; the reward begins when the gate has ended for all samples."""
        first = parts["gate"](samples)

        def wait() -> list[Graded]:
            gates = first()
            passed = [row for row, one in enumerate(gates) if self.passes(one)]
            later = dict(zip(passed, parts["reward"]([samples[row] for row in passed])(), strict=True))
            return [self.one(gate, later.get(row)) for row, gate in enumerate(gates)]

        return wait

    def passes(self, gate: Graded) -> bool:
        """Whether the reward is asked."""
        return gate.error is None and not gate.score < self.threshold

    def one(self, gate: Graded, reward: Graded | None) -> Graded:
        """One row's grade; `reward` is None where it was not asked."""
        if reward is None:
            return joined({"gate": gate}, self.otherwise)
        return joined({"gate": gate, "reward": reward}, reward.score)


class PerSource(Combination):
    """The reward of each row's `data_source`; a source without one is an error before the first rollout.

    Args:
        sources: rewards by the sources that they grade; these are the names of the parts of the score.
        default: the reward for every other source, reported as `default`.
    """

    checks_rows = True

    def __init__(self, *, sources: dict[str, Any] | None = None, default: Reward | None = None) -> None:
        parts = dict(sources or {})
        if not parts:
            raise ConfigError("per_source has no sources; give rewards by source: reward.sources={SOURCE: NAME}")
        if default is not None and "default" in parts:
            raise ConfigError("reward.sources has a source 'default', which is the name of reward.default; set one")
        self.sources = [str(name) for name in parts]
        super().__init__(parts | ({} if default is None else {"default": default}), "reward.sources")

    def check(self, columns: Collection[str]) -> None:
        """Raise RewardError where the data has no sources."""
        check_columns("per_source", ("data_source",), columns)

    def asked(self, data: Mapping[str, Any]) -> Iterable[str]:
        """The part of the row's source. Raises DataError for a source that has none."""
        source = data.get("data_source")
        name = str(source) if source is not None and str(source) in self.sources else "default"
        if name not in self.parts:
            listed = ", ".join(map(repr, self.sources))
            found = "is missing" if source is None else f"{str(source)!r} has no reward"
            map_it = f"reward.sources={{{str(source)!r}: NAME}} or " if source else ""
            raise DataError(
                f"data_source {found}; known: {listed}.{nearest(str(source or ''), self.sources) if source else ''}"
                f" Map it with {map_it}reward.default=NAME"
            )
        return (name,)

    def begin(self, samples: Sequence[Sample], parts: Mapping[str, Begin]) -> Wait:
        """The rows of each source by its own reward, all at once."""
        rows: dict[str, list[int]] = {}
        grades: list[Graded] = [Graded(math.nan)] * len(samples)
        for row, sample in enumerate(samples):
            try:
                [name] = self.asked(sample.data)
            except DataError as error:
                grades[row] = Graded(math.nan, {}, str(error))
            else:
                rows.setdefault(name, []).append(row)
        waits = {name: parts[name]([samples[row] for row in of_it]) for name, of_it in rows.items()}

        def wait() -> list[Graded]:
            for name, wait_for in waits.items():
                for row, one in zip(rows[name], wait_for(), strict=True):
                    grades[row] = joined({name: one}, one.score)
            return grades

        return wait


def joined(grades: Mapping[str, Graded], score: float) -> Graded:
    """The grades of a row's parts as one with this score: unscored if one of them failed, every part by its name."""
    parts: dict[str, float] = {}
    for name, one in grades.items():
        if not math.isnan(one.score):
            parts[name] = one.score
        parts.update((f"{name}.{inner}", value) for inner, value in one.parts.items())
    error = next((one.error for one in grades.values() if one.error), None)
    extracted = next((one.extracted for one in grades.values() if one.extracted is not None), None)
    return Graded(math.nan if error else score, parts, error, extracted)


def reward_of(part: Any, key: str) -> Any:
    """A part as something to call. Raises ConfigError or UnknownNameError with the key that asked."""
    if isinstance(part, str | Mapping):
        from rlcore.config.specs import component_of  # only what is written by name needs the registry

        return component_of("reward", part, key)
    if not callable(part):
        raise ConfigError(f"{key}={part!r:.80}: expected the name of a reward, {{name: NAME, ...}} or a function")
    return part


def _alone(name: str, part: Any) -> Begin:
    """A part called in this process, as it is called without a manager."""
    made = started(part)

    def begin(samples: Sequence[Sample]) -> Wait:
        return lambda: [_graded(Caller(made, name), sample) for sample in samples]

    return begin


def _graded(caller: Caller, sample: Sample) -> Graded:
    if caller.batched:
        raise NotGradedError(f"reward {caller.name!r} grades many completions at a time, which needs a reward manager")
    if isinstance(caller.function, Combination):
        return grade(caller.function(sample.completion, **{**sample.data, "prompt": sample.prompt}))
    result = caller.call(sample)
    return grade(asyncio.run(awaited(result)) if inspect.isawaitable(result) else result)
