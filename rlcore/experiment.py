"""Experiment: what a configuration becomes before anything loads: settings and components, resolved and checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rlcore.algorithm import Algorithm
from rlcore.component import Component, bind, identity, name_of, options
from rlcore.data.rows import Row, Rows
from rlcore.errors import ConfigError, nearest
from rlcore.graph import Graph
from rlcore.kinds import KINDS
from rlcore.registry import get, registry
from rlcore.services import check_class
from rlcore.settings import Data, Settings


@dataclass(frozen=True)
class Experiment:
    """Settings and components of a run. `resolved` is what its `config.yaml` holds."""

    settings: Settings
    algorithm: Algorithm
    dataset: Component
    reward: Component
    reward_manager: Component
    environment: Component
    sampler: Component
    order: Component
    optimizer: Component
    schedule: Component
    trainer: Component
    weight_transfer: Component
    resolved: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        samples = self.settings.prompts * self.algorithm.group_size
        if self.settings.prompts % self.algorithm.minibatches:
            raise ConfigError(
                f"prompts={self.settings.prompts} does not divide into minibatches={self.algorithm.minibatches}: "
                f"a minibatch is made of whole groups ({samples} samples of {self.algorithm.group_size} each)"
            )
        self.graph.resolve()
        for kind in ("reward_manager", "environment", "sampler", "order", "trainer", "weight_transfer"):
            check_class(kind, getattr(self, kind))

    @property
    def graph(self) -> Graph:
        """The graph of one step, with every declared column."""
        return self.algorithm.graph(reward=self.reward, environment=self.environment, table=registry().columns)

    @property
    def components(self) -> dict[str, Component]:
        """Every component by the part it plays."""
        found: dict[str, Component] = {
            "reward": self.reward,
            "reward_manager": self.reward_manager,
            "environment": self.environment,
            "sampler": self.sampler,
            "order": self.order,
            "optimizer": self.optimizer,
            "schedule": self.schedule,
            "trainer": self.trainer,
            "weight_transfer": self.weight_transfer,
            "data": self.dataset,
        }
        algorithm = self.algorithm
        for name in (
            "loss",
            "reduction",
            "kl",
            "kl_in_reward",
            "filter",
            "value_loss",
            "value_reduction",
            "controller",
        ):
            if getattr(algorithm, name) is not None:
                found[name] = getattr(algorithm, name)
        lists = {
            "advantage": algorithm.chain,
            "correction": algorithm.corrections,
            "shaping": algorithm.shaping,
            "select": algorithm.selects,
        }
        for kind, parts in lists.items():
            found |= {f"{kind}_{i + 1}": part for i, part in enumerate(parts)}
        return found


def settings_of(values: Mapping[str, Any]) -> Settings:
    """Return checked settings. Raises ConfigError naming each wrong key with the nearest one."""
    try:
        return Settings(**values)
    except ValidationError as error:
        raise ConfigError("; ".join(_said(e) for e in error.errors())) from None


def _said(error: Any) -> str:
    path = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        part: Any = Settings
        for name in error["loc"][:-1]:
            part = part.model_fields[name].annotation
        known = list(part.model_fields)
        return f"unknown setting {path!r}; known: {', '.join(known)}.{nearest(str(error['loc'][-1]), known)}"
    if error["type"] == "missing":
        return f"setting {path!r} is needed"
    return f"setting {path}={error.get('input')!r}: {error['msg'].removeprefix('Value error, ')}"


def assemble(
    *,
    algorithm: Algorithm | str,
    model: Any,
    data: Any,
    reward: Any,
    reward_manager: Any,
    environment: Any,
    sampler: Any,
    order: Any,
    optimizer: Any,
    schedule: Any,
    trainer: Any,
    weight_transfer: Any,
    settings: Mapping[str, Any],
) -> Experiment:
    """Return the experiment of Python objects and registered names.

    `data` is a name, a mapping with `name` and options, a list of rows, or a data set function. Raises ConfigError for
    an unknown setting or option, UnknownNameError for a name.
    """
    dataset, data_settings = _dataset(data)
    checked = settings_of({**settings, "model": model, "data": data_settings})
    made = get("algorithm", algorithm)() if isinstance(algorithm, str) else algorithm
    parts = {
        "reward": _part("reward", reward),
        "reward_manager": _part("reward_manager", reward_manager),
        "environment": _part("environment", environment),
        "sampler": _part("sampler", sampler),
        "order": _part("order", order),
        "optimizer": _part("optimizer", optimizer),
        "schedule": _part("schedule", schedule),
        "trainer": _part("trainer", trainer),
        "weight_transfer": _part("weight_transfer", weight_transfer),
    }
    named = {
        "algorithm": algorithm,
        "data": data,
        "reward": reward,
        "reward_manager": reward_manager,
        "environment": environment,
        "sampler": sampler,
        "order": order,
        "optimizer": optimizer,
        "schedule": schedule,
        "trainer": trainer,
        "weight_transfer": weight_transfer,
    }
    resolved = {**checked.model_dump(mode="json", exclude={"data"}), **{k: _shown(v) for k, v in named.items()}}
    return Experiment(settings=checked, algorithm=made, dataset=dataset, resolved=resolved, **parts)


def _part(kind: str, thing: Any) -> Component:
    if isinstance(thing, Mapping):
        component: Component = bind(get(kind, thing["name"]), **{k: v for k, v in thing.items() if k != "name"})
    elif isinstance(thing, str):
        # A default is nobody's word: it means rlcore's own, whoever else has that name.
        is_default = thing in [group.default for group in KINDS[kind].groups]
        component = get(kind, registry().unambiguous(kind, thing) if is_default else thing)
    else:
        component = thing
    if not callable(component):
        raise ConfigError(f"{kind}={thing!r} is neither a registered name nor something to call")
    return component


def _dataset(data: Any) -> tuple[Component, Data]:
    if isinstance(data, str):
        return get("dataset", data), Data()
    if isinstance(data, Mapping):
        given = dict(data)
        component = _part("dataset", given.pop("name", "file"))
        return bind(component, **given), Data(**{k: v for k, v in given.items() if k in Data.model_fields})
    if callable(data):
        return data, Data()
    rows = list(data)
    if not rows:
        raise ConfigError("data is an empty list of rows")
    return given_rows(rows), Data()


def given_rows(rows: list[Row]) -> Component:
    """Return a data set function that gives these rows."""

    def rows_in_memory() -> Rows:
        """Rows that were handed over as a list."""
        return Rows(rows)

    return rows_in_memory


def _shown(value: Any) -> Any:
    """Return how a component stands in `config.yaml`: its name, or where it was defined."""
    if isinstance(value, str | Mapping):
        return value
    if isinstance(value, Algorithm):
        return {
            "name": value.name,
            "parts": {n: _described(getattr(value, n)) for n in value.__dataclass_fields__ if n != "name"},
        }
    if callable(value):
        return _described(value)
    return f"{len(list(value))} rows given in Python"


def _described(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Never its repr: that holds addresses, and a resumed run would not be recognised.
        return {
            "name": type(value).__name__,
            **{f.name: _described(getattr(value, f.name)) for f in dataclasses.fields(value)},
        }
    if isinstance(value, Mapping):
        return {str(k): _described(v) for k, v in value.items()}
    if callable(value):
        bound = {n: _described(o.default) for n, o in options(value).items()}
        return {"name": name_of(value), "from": identity(value).name, **bound}
    if isinstance(value, tuple | list):
        return [_described(v) for v in value]
    if isinstance(value, str | int | float | bool | Path) or value is None:
        return value
    return str(value)
