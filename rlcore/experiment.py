"""Experiment: what a configuration becomes before anything loads: settings and components, resolved and checked."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from rlcore.component import Component, as_tuple
from rlcore.errors import ConfigError, nearest
from rlcore.graph import Graph, Node
from rlcore.kinds import GROUPS, SLOTS
from rlcore.protocols import GraphSource, Update
from rlcore.registry import registry
from rlcore.services import check_class
from rlcore.settings import Settings, sections


@dataclass(frozen=True)
class Experiment:
    """Settings and components of a run.

    Attributes:
        algorithm: anything with the graph of a step; most often an `Algorithm`.
        services: what is chosen beside the algorithm, by configuration group; a tuple where there may be several.
        config: what its `config.yaml` holds: the choices and options that somebody set, and all settings.
        resolved: what its `resolved.yaml` holds: every component with every option, and all settings.

    Raises ConfigError for sizes that do not fit, GraphError for a graph with a gap.
    """

    settings: Settings
    algorithm: GraphSource
    services: Mapping[str, Any]
    config: Mapping[str, Any] = field(default_factory=dict)
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

    @functools.cached_property
    def graph(self) -> Graph:
        """The graph of one step, with every declared column."""
        return self.algorithm.graph(reward=self.reward, environment=self.environment, table=registry().columns)

    @property
    def dataset(self) -> Component:
        """The data set's function."""
        component: Component = self.services["data"]
        return component

    def __getattr__(self, name: str) -> Any:
        """Return the service of a configuration group: `experiment.sampler`."""
        services = self.__dict__.get("services", {})
        if name in services:
            return services[name]
        raise AttributeError(f"an experiment has no {name!r}; its services are {', '.join(services)}")

    @property
    def idle_slots(self) -> set[str]:
        """The slots of the algorithm whose component no living node uses."""
        called = {id(each) for node in self.graph.resolve().nodes for each in called_components(node)}
        slots = {key: as_tuple(getattr(self.algorithm, key, None)) for key in SLOTS}
        return {slot for slot, several in slots.items() if several and called.isdisjoint(map(id, several))}

    @property
    def components(self) -> dict[str, Component]:
        """Every component by its configuration group; of several in one group each has its number."""
        components: dict[str, Component] = {}
        algorithm = {key: getattr(self.algorithm, key, None) for key in SLOTS}
        for key, value in (*self.services.items(), *algorithm.items()):
            kind, group = GROUPS[key]
            if group.many:
                components |= {f"{kind.name}_{i + 1}": each for i, each in enumerate(as_tuple(value))}
            elif value is not None:
                components[key] = value
        own: Any = self.algorithm
        if not any(algorithm.values()) and dataclasses.is_dataclass(own):
            values = {f.name: getattr(own, f.name) for f in dataclasses.fields(own)}
            components |= {name: value for name, value in values.items() if callable(value)}
        return components


def called_components(node: Node) -> tuple[Any, ...]:
    """Return what a node calls: the component, those of an update, and those among the options of what it calls."""
    call = node.call
    if isinstance(call, Update):
        return (*(t.loss for t in call.terms), *(t.reduction for t in call.terms), *call.selects)
    return (call, *getattr(call, "keywords", {}).values())


def settings_of(values: Mapping[str, Any]) -> Settings:
    """Return checked settings. Raises ConfigError naming each wrong key with the nearest one."""
    try:
        return Settings(**values)
    except ValidationError as error:
        raise ConfigError("; ".join(_message(e) for e in error.errors())) from None


def _message(error: Any) -> str:
    path = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        section: Any = Settings
        for name in error["loc"][:-1]:
            # Of a mapping of sections (`roles`) each value is one.
            section = get_args(section)[1] if get_origin(section) is dict else section.model_fields[name].annotation
        known, word = list(section.model_fields), str(error["loc"][-1])
        homes = [name for name, inner in sections().items() if word in inner.model_fields]
        near = nearest(word, known) or (
            f" It may stand in {' or '.join(homes)}: {homes[0]}={{{word!r}: ...}}" if homes else ""
        )
        return f"unknown setting {path!r}; known: {', '.join(known)}.{near}"
    if error["type"] in ("model_type", "model_attributes_type", "dict_type") and path in sections():
        inner = list(sections()[path].model_fields)
        shown = f"{path}={{{inner[0]!r}: ...}}"
        return f"setting {path}={error.get('input')!r:.80}: expected a dict of settings, such as {shown}; it has: " + (
            ", ".join(inner)
        )
    if error["type"] == "missing":
        return f"setting {path!r} is needed"
    return f"setting {path}={error.get('input')!r}: " + (
        error["msg"].replace("Input should be", "it must be").removeprefix("Value error, ")
    )
