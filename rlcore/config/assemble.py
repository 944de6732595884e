"""An experiment of Python objects and registered names, checked as one of files is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.algorithm import Algorithm
from rlcore.component import Component, bind, identity, name_of, options
from rlcore.config.bind import Factory, check_complete, grades, number_fields, several_of
from rlcore.config.specs import component_of, configuration_groups, default_name, find_component, specs_of
from rlcore.config.unused_settings import check_unused
from rlcore.data.rows import Row, Rows
from rlcore.errors import ConfigError, RLCoreError, counted
from rlcore.experiment import Experiment, settings_of
from rlcore.kinds import SLOTS
from rlcore.protocols import GraphSource, missing_members
from rlcore.registry import get
from rlcore.settings import Data, Settings
from rlcore.weights.sources import given_model


def assemble(*, algorithm: Any, model: Any, data: Any, settings: Mapping[str, Any], **services: Any) -> Experiment:
    """Return the experiment of Python objects and registered names.

    `algorithm` is a name or anything with a `graph()`. `data` is a name, a mapping with `name` and options, a list of
    rows, or a data set function. `services` are names, mappings or objects by configuration group; those that are left
    out have their defaults, and further ones may stand among the settings.

    Raises ConfigError for an unknown setting or option, or one without effect, UnknownNameError for a name.
    """
    groups = configuration_groups()
    given = {key: value for key, value in settings.items() if key not in groups}
    services |= {key: value for key, value in settings.items() if key in groups}
    if wrong := [key for key in services if key in (*SLOTS, "algorithm")]:
        raise ConfigError(f"{wrong[0]} is a component of the algorithm: replace(algorithm, {wrong[0]}=...)")
    if wrong := [key for key in given if key in number_fields(Algorithm) and key not in Settings.model_fields]:
        raise ConfigError(f"{wrong[0]} is a number of the algorithm: algorithm=grpo({wrong[0]}={given[wrong[0]]!r})")
    if isinstance(model, tuple | list):
        if len(model) != 2:
            raise ConfigError(f"model is {type(model).__name__} of {len(model)}; a pair is (module, tokenizer)")
        model = str(given_model(*model))
    dataset, data_settings = _dataset(data)
    checked = settings_of({**given, "model": model, "data": data_settings})
    made = find_component("algorithm", algorithm, "algorithm")() if isinstance(algorithm, str) else algorithm
    if missing := missing_members(made, GraphSource):
        hint = f" Did you mean {name_of(made)}()?" if callable(made) else ""
        if isinstance(made, Mapping):
            hint = " Give a name, or call what makes it: algorithm=grpo(group_size=8)"
        raise ConfigError(f"algorithm={made!r:.80} lacks {', '.join(missing)}.{hint}")
    named: dict[str, Any] = {"algorithm": algorithm, "data": data}
    built: dict[str, Any] = {"data": dataset}
    for key, (kind, group) in groups.items():
        if group.slot or key in ("algorithm", "data"):
            continue
        value = services.get(key, group.default)
        if key not in services:
            value = default_name(kind.name, value)
        named[key] = value
        if value is None and group.optional and not group.many:
            built[key] = None
        elif group.many:
            several = [] if value is None else value if isinstance(value, list | tuple) else [value]
            built[key] = tuple(_component(kind.name, one, key) for one in several)
        else:
            built[key] = _component(kind.name, value, key)
    if built["reward"] is None and grades(made):
        check_complete({"reward": None}, {})
    resolved = {**checked.model_dump(mode="json", exclude={"data"}), **{k: _shown(v) for k, v in named.items()}}
    experiment = Experiment(settings=checked, algorithm=made, services=built, config=resolved, resolved=resolved)
    check_unused(experiment, specs_of(made), _from_factory(made))
    return experiment


def _from_factory(algorithm: Any) -> Any:
    """Return the algorithm of this one's name as its registered factory makes it; None without such a factory."""
    name = getattr(algorithm, "name", None)
    try:
        made = Factory(str(name), get("algorithm", str(name))).call({})
    except RLCoreError:
        return None
    return made if isinstance(made, type(algorithm)) else None


def _component(kind: str, thing: Any, key: str) -> Component:
    if isinstance(thing, str | Mapping):
        return component_of(kind, thing, key)
    if not callable(thing):
        several = several_of(key) if isinstance(thing, list | tuple) else ""
        raise ConfigError(f"{key}={thing!r:.80} is neither a registered name nor something to call{several}")
    component: Component = thing
    return component


def _dataset(data: Any) -> tuple[Component, Data]:
    if isinstance(data, str):
        return find_component("dataset", data, "data"), Data()
    if isinstance(data, Mapping):
        if "name" not in data and any(isinstance(value, list | tuple) for value in data.values()):
            raise ConfigError(
                "data is a dict of columns; rows are a list of dicts: data=[{'prompt': ..., 'target': ...}]"
            )
        given = dict(data)
        component = _component("dataset", given.pop("name", "file"), "data")
        return bind(component, **given), Data(**{k: v for k, v in given.items() if k in Data.model_fields})
    if callable(data):
        return data, Data()
    rows = list(data)
    if not rows:
        raise ConfigError("data is an empty list of rows")
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ConfigError(f"row {number} of data is {row!r:.60}; a row is a dict: {{'prompt': ..., 'target': ...}}")
        if "prompt" not in row:
            raise ConfigError(f"row {number} of data has no 'prompt'; it has: {', '.join(map(str, row))}")
    return given_rows(rows), Data()


def given_rows(rows: list[Row]) -> Component:
    """Return a data set function that gives these rows."""

    def rows_in_memory() -> Rows:
        """Rows that were handed over as a list."""
        return Rows(rows)

    return rows_in_memory


def _shown(value: Any) -> Any:
    """Return how a component stands in `config.yaml`: its name, or where it was defined."""
    if isinstance(value, str | Mapping) or value is None:
        return value
    if callable(value) or dataclasses.is_dataclass(value):
        return _described(value)
    if isinstance(value, list | tuple) and all(_is_choice(one) for one in value):
        return [_shown(one) for one in value]
    return f"{counted(len(list(value)), 'row')} given in Python"


def _is_choice(value: Any) -> bool:
    """Tell whether it chooses a component, as a tracker, and is no row."""
    return isinstance(value, str) or callable(value) or (isinstance(value, Mapping) and "name" in value)


def _described(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Never its repr: that holds addresses, and a resumed run would not be recognised.
        fields = {f.name: _described(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"name": type(value).__name__, **fields}
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
