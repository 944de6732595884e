"""Rewards made of rewards: a weighted sum, one behind another, one for each source of the data.

A manager calls the components itself, each where it belongs; a combination says only which are asked and what they
add up to. Components are written by name, `{name: NAME, option: value}`, or given as functions.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any

from rlcore.component import Component, OfKind
from rlcore.errors import ConfigError, DataError, nearest
from rlcore.protocols import Graded, Sample
from rlcore_rewards.calling import UnscoredError, check_columns

Wait = Callable[[], list[Graded]]
Begin = Callable[[Sequence[Sample]], Wait]
Reward = Annotated[Component, OfKind("reward")]


class Combination(abc.ABC):
    """A reward made of other rewards, its components. A manager calls these; without one, this process calls them.

    `checks_rows`: whether `components_for` can refuse a row, whatever the components check.
    """

    checks_rows = False

    def __init__(self, components: Mapping[str, Any], key: str) -> None:
        self.components = {
            str(name): resolve_reward(component, f"{key}.{name}") for name, component in components.items()
        }

    @abc.abstractmethod
    def begin(self, samples: Sequence[Sample], components: Mapping[str, Begin]) -> Wait:
        """Begin to score the samples; return a function that waits for their grades, in order."""

    def components_for(self, data: Mapping[str, Any]) -> Iterable[str]:
        """Return which components may be asked for this row. Raises DataError if none can be."""
        return self.components

    def check(self, columns: Collection[str]) -> None:  # noqa: B027 - most read no column
        """Raise RewardError if the combination itself reads a column that is not there."""

    def __call__(self, completion: str, **row: Any) -> dict[str, Any]:
        """Return one completion's score, components and answer. Raises what a component raises."""
        from rlcore_rewards.managers.managed_rewards import managed_reward
        from rlcore_rewards.managers.reward_host import RewardHost

        sample = Sample(row.get("prompt", ""), completion, row.get("messages"), row)
        host = RewardHost(workers=1, seconds=None, isolate=False, failed=raise_failure)
        managed = managed_reward(self, "", host)
        try:
            [graded] = managed.begin([sample])()
        finally:
            managed.close()
            host.close()
        if graded.error is not None:
            raise UnscoredError(graded.error)
        score = None if math.isnan(graded.score) else graded.score
        return {"score": score, **graded.components, "extracted": graded.extracted}


class Weighted(Combination):
    """The weighted sum of several rewards. A component that does not apply is left out.

    A component of weight 0 is called and reported, and adds nothing; where no component with a weight applies, the row
    is unscored.

    Args:
        components: rewards by name; the names are those of the components of the score.
        weights: of the components, by name; 1 where it says nothing.
    """

    def __init__(self, *, components: dict[str, Any] | None = None, weights: dict[str, float] | None = None) -> None:
        super().__init__(components or {}, "reward.components")
        if not self.components:
            raise ConfigError(
                "no reward to grade with; give rewards by name: reward.components={answer: NAME, form: NAME}"
            )
        for name, weight in (weights or {}).items():
            if name not in self.components:
                listed = ", ".join(self.components)
                raise ConfigError(
                    f"reward.weights.{name} weighs no component; components: {listed}.{nearest(name, self.components)}"
                )
            if not math.isfinite(weight):
                raise ConfigError(f"reward.weights.{name}={weight}; expected a finite number")
        self.weights = {name: (weights or {}).get(name, 1.0) for name in self.components}

    def begin(self, samples: Sequence[Sample], components: Mapping[str, Begin]) -> Wait:
        """Begin all components at once; return a function that waits for the weighted sums."""
        waits = {name: begin(samples) for name, begin in components.items()}

        def wait() -> list[Graded]:
            columns = [wait() for wait in waits.values()]
            return [self.sum(dict(zip(waits, row, strict=True))) for row in zip(*columns, strict=True)]

        return wait

    def sum(self, grades: Mapping[str, Graded]) -> Graded:
        """Return one row's grades as one."""
        applies = [name for name, one in grades.items() if not math.isnan(one.score)]
        # What only is reported must not make a 0 of a row that none of the others could grade.
        counts = any(self.weights[name] for name in applies) or (applies and not any(self.weights.values()))
        scores = [self.weights[name] * grades[name].score for name in applies]
        return combine_grades(grades, math.fsum(scores) if counts else math.nan)


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
        for name, component in {"gate": gate, "reward": reward}.items():
            if component is None:
                raise ConfigError(f"reward.{name} must be set: gated has a gate and the reward behind it")
        super().__init__({"gate": gate, "reward": reward}, "reward")
        self.threshold = threshold
        self.otherwise = otherwise

    def begin(self, samples: Sequence[Sample], components: Mapping[str, Begin]) -> Wait:
        """Begin the gate; the reward begins when the gate has ended for all samples."""
        first = components["gate"](samples)

        def wait() -> list[Graded]:
            gates = first()
            passed = [row for row, gate in enumerate(gates) if gate.error is None and not gate.score < self.threshold]
            later = dict(zip(passed, components["reward"]([samples[row] for row in passed])(), strict=True))
            return [
                combine_grades({"gate": gate, "reward": later[row]}, later[row].score)
                if row in later
                else combine_grades({"gate": gate}, self.otherwise)
                for row, gate in enumerate(gates)
            ]

        return wait


class PerSource(Combination):
    """The reward of each row's `data_source`; a source without one is an error before the first rollout.

    Args:
        sources: rewards by the sources that they grade; these are the names of the components of the score.
        default: the reward for every other source, reported as `default`.
    """

    checks_rows = True

    def __init__(self, *, sources: dict[str, Any] | None = None, default: Reward | None = None) -> None:
        components = dict(sources or {})
        if not components:
            raise ConfigError("per_source has no sources; give rewards by source: reward.sources={SOURCE: NAME}")
        if default is not None and "default" in components:
            raise ConfigError("reward.sources has a source 'default', which is the name of reward.default; set one")
        self.sources = [str(name) for name in components]
        super().__init__(components | ({} if default is None else {"default": default}), "reward.sources")

    def check(self, columns: Collection[str]) -> None:
        """Raise RewardError where the data has no sources."""
        check_columns("per_source", ("data_source",), columns)

    def components_for(self, data: Mapping[str, Any]) -> Iterable[str]:
        """Return the component of the row's source. Raises DataError for a source that has none."""
        source = data.get("data_source")
        name = str(source) if source is not None and str(source) in self.sources else "default"
        if name not in self.components:
            listed = ", ".join(map(repr, self.sources))
            found = "is missing" if source is None else f"{str(source)!r} has no reward"
            map_it = f"reward.sources={{{str(source)!r}: NAME}} or " if source else ""
            raise DataError(
                f"data_source {found}; known: {listed}.{nearest(str(source or ''), self.sources) if source else ''}"
                f" Map it with {map_it}reward.default=NAME"
            )
        return (name,)

    def begin(self, samples: Sequence[Sample], components: Mapping[str, Begin]) -> Wait:
        """Begin the rows of each source by its own reward, all at once."""
        rows: dict[str, list[int]] = {}
        grades: list[Graded] = [Graded(math.nan)] * len(samples)
        for row, sample in enumerate(samples):
            try:
                [name] = self.components_for(sample.data)
            except DataError as error:
                grades[row] = Graded(math.nan, {}, str(error))
            else:
                rows.setdefault(name, []).append(row)
        waits = {name: components[name]([samples[row] for row in of_it]) for name, of_it in rows.items()}

        def wait() -> list[Graded]:
            for name, wait_for in waits.items():
                for row, one in zip(rows[name], wait_for(), strict=True):
                    grades[row] = combine_grades({name: one}, one.score)
            return grades

        return wait


def combine_grades(grades: Mapping[str, Graded], score: float) -> Graded:
    """Return one grade with this score and every component by its name; unscored if a component failed."""
    components: dict[str, float] = {}
    for name, one in grades.items():
        if not math.isnan(one.score):
            components[name] = one.score
        components.update((f"{name}.{inner}", value) for inner, value in one.components.items())
    error = next((one.error for one in grades.values() if one.error), None)
    extracted = next((one.extracted for one in grades.values() if one.extracted is not None), None)
    return Graded(math.nan if error else score, components, error, extracted)


def resolve_reward(component: Any, key: str) -> Any:
    """Return a component as something to call. Raises ConfigError or UnknownNameError with the key that asked."""
    if isinstance(component, str | Mapping):
        from rlcore.config.specs import component_of  # only what is written by name needs the registry

        return component_of("reward", component, key)
    if not callable(component):
        raise ConfigError(f"{key}={component!r:.80}: expected the name of a reward, {{name: NAME, ...}} or a function")
    return component


def raise_failure(_caller: Any, _sample: Sample, _row: int, error: BaseException) -> None:
    """Raise what a component raised: where there is no manager, nobody counts it."""
    raise error
