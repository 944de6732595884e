"""From a file and a command line to an experiment, checked before anything loads."""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rlcore.algorithm import Algorithm
from rlcore.component import Component
from rlcore.config.assembly import Factory, Nodes, carry_over, effective, members, number_fields
from rlcore.config.checks import check_effects, check_options, check_resume, idle_parts
from rlcore.config.composing import compose_nodes
from rlcore.config.keys import check_signs, open_keys, unknown_keys
from rlcore.config.layers import Layer, from_overrides, from_tree, over, read_settings
from rlcore.config.notation import Given, read_file, read_tree
from rlcore.config.parts import GROUPS, PARTS, Node, Shelf, build, named_node, options_of, set_option
from rlcore.config.places import anchored
from rlcore.config.values import read_as
from rlcore.errors import ConfigError, UnknownNameError
from rlcore.experiment import Experiment, settings_of
from rlcore.registry import names, registry

DEFAULTS = {
    "algorithm": "grpo",
    "reward_manager": "default",
    "environment": "single_turn",
    "sampler": "embedded",
    "order": "shuffled",
    "optimizer": "adamw",
    "schedule": "constant",
    "trainer": "torch",
    "weight_transfer": "shared",
}
"""What is chosen where nobody chooses."""


def no_reward(completion: str) -> None:
    """No score: the reward of an experiment that only trains supervised."""


def load(overrides: Sequence[str] = (), file: Path | str | None = None, *, supervised: bool = False) -> Experiment:
    """Return the experiment of a YAML file or a registered name (or of neither), with `key=value` laid over it.

    Without a file, and without `data=` or `model=`, the overrides are laid over the default run; with `resume=RUN` or
    `start_from=RUN` (this one unless both are given), over that run's own config.yaml. Paths are relative to the
    working directory, also those in a file. `supervised` lets the reward be missing.

    Raises ConfigError, UnknownNameError, RegistryError, ComponentError or GraphError: an unknown key, part or option
    (with the nearest), a value of the wrong type, a setting without effect, parts or sizes that do not fit.
    """
    high = from_overrides(overrides)
    low = base_layer(high, Path(file) if file is not None else None)
    merged = over(low, high)
    check_complete(merged, supervised=supervised)
    made = Making(Shelf(), low, high, merged)
    made.choose()
    made.set_options()
    experiment = made.finish()
    check_resume(low, high, experiment)
    return experiment


def base_layer(high: Layer, file: Path | None) -> Layer:
    """Return what the overrides are laid over. Raises ConfigError for a file that is not there or not YAML."""
    if file is not None and str(file) in names("experiment") and not file.exists():
        return from_tree(*preset(str(file)))
    if file is not None:
        return from_tree(read_file(file), str(file))
    for key in ("resume", "start_from"):
        given = high.settings.get((key,))
        if given is None or given.value is None:
            continue
        path, at, step = str(given.value).rpartition("@")
        run = path if at and step.isdecimal() and key == "start_from" else str(given.value)
        if key == "start_from" and "data" in high.choices and "model" in high.choices:
            continue
        config = Path(run).expanduser() / "config.yaml"
        try:
            layer = from_tree(read_file(config), str(config))
        except ConfigError as error:
            raise ConfigError(f"{key}={given.shown()} names no run: {error}") from error
        if key == "start_from":
            for mine in (("run", "name"), ("resume",), ("start_from",)):
                layer.settings.pop(mine, None)
        return layer
    if "data" in high.choices or "model" in high.choices:
        return Layer()
    return from_tree(*preset("default"))


def preset(name: str) -> tuple[dict[str, Any], str]:
    """Return the tree of a registered experiment, `package:resource.yaml`, and where it stands. Raises ConfigError."""
    try:
        entry = registry().entry("experiment", name)
    except UnknownNameError as error:
        raise ConfigError(f"nothing to train: give a file, or data= and model= ({error})") from error
    spec = str(entry.thing)
    package, _, resource = spec.partition(":")
    try:
        text = importlib.resources.files(package).joinpath(resource).read_text(encoding="utf-8")
    except (ImportError, OSError) as error:
        raise ConfigError(f"experiment {name!r} ({spec}) cannot be read: {error}") from error
    return {key: _as_meant(key, value, entry.distribution) for key, value in read_tree(text, spec).items()}, spec


def _as_meant(key: str, value: Any, distribution: str) -> Any:
    """Return what a packaged experiment chooses, with the names of its own distribution where another has the same."""
    if key not in GROUPS:
        return value
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        return {**value, "name": registry().unambiguous(GROUPS[key].kind, value["name"], distribution=distribution)}
    if isinstance(value, str):
        return registry().unambiguous(GROUPS[key].kind, value, distribution=distribution)
    return value


def check_complete(merged: Layer, *, supervised: bool) -> None:
    """Raise ConfigError for a missing model, data or reward, naming all that is missing with what may stand there."""
    hows = {
        "model": f"a folder, hf:ORG/NAME, modelscope:ORG/NAME, or one of {', '.join(names('model'))}",
        "data": f"one of {', '.join(names('dataset')) or 'none'}, or path/to/file.py:function",
        "reward": f"one of {', '.join(names('reward')) or 'none'}, or path/to/file.py:function",
    }
    if supervised:
        merged.choices.setdefault("reward", Given(f"{__name__}:{no_reward.__name__}"))
    missing = [key for key in hows if (choice := merged.choices.get(key)) is None or choice.value in (None, "")]
    if not missing:
        return
    said = "\n".join(f"{key}= is missing: give {hows[key]}" for key in missing)
    for key in missing:
        if key not in merged.choices and (given := merged.of(key)):
            said += f"\n{key} has {', '.join('.'.join(path) for path in given)} and no name{several_of(key)}"
    if missing != ["reward"]:
        said += "\nThe default run is `rlcore train` alone: it comes only without a file, model= and data="
    raise ConfigError(said)


def several_of(group: str) -> str:
    """Return the end of a message about several parts where a run has one: how they are made one, if a part does so."""
    if group != "reward" or "weighted" not in names("reward"):
        return ""
    return "; several are one of parts: reward={name: weighted, parts: {acc: path/to/file.py:acc, m: math}}"


@dataclass
class Making:
    """An experiment on its way from layers to components."""

    shelf: Shelf
    low: Layer
    high: Layer
    merged: Layer
    nodes: Nodes = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)

    def choose(self) -> None:
        """Decide which parts there are, and let Hydra compose their nodes."""
        name = self._chosen_name("algorithm")
        self.factory = Factory(self.shelf, name, self.shelf.find("algorithm", name, "algorithm"))
        carry_over(self.factory, self.low, self.high, self.merged)
        self.options, self.numbers = self.factory.read(self.merged.of("algorithm"))
        chosen = {group: self._chosen(group) for group in PARTS if group in self.merged.choices}
        own = self.factory.nodes(self.factory.call(self.options))
        replaced = {
            group: ", ".join(str(n["name"]) for n in nodes) or "null"
            for group, nodes in chosen.items()
            if [n["name"] for n in nodes] != [n["name"] for n in own[group]]
        }
        self.options = effective(self.factory, self.options, replaced, self.low, self.high)
        self.base = self.factory.call(self.options)
        self.own = self.factory.nodes(self.base)
        self.replaced = replaced
        slots = {**self.own, **chosen}
        for group, info in GROUPS.items():
            if not info.of_algorithm and group != "algorithm":
                slots[group] = [named_node(self.shelf, info.kind, self._chosen_name(group), group)]
        self.unknown = unknown_keys(self.merged, self._known(slots))
        if not self.unknown:
            opened = [key for g, nodes in slots.items() for key in open_keys(self.shelf, g, nodes)]
            check_signs(self.high, self._known(slots), opened)
        self.nodes = compose_nodes(slots)

    def _known(self, slots: Nodes) -> dict[str, list[str]]:
        """Return the options that each group's parts have."""
        known = {"algorithm": [*self.factory.options, *self.base_numbers]}
        for group, nodes in slots.items():
            known[group] = [
                o for node in nodes for o in options_of(self.shelf.find(GROUPS[group].kind, node["name"], group), group)
            ]
        return known

    @property
    def base_numbers(self) -> list[str]:
        """Numbers of the algorithm that its factory has no option for."""
        return [name for name in number_fields() if name not in self.factory.options]

    def _chosen_name(self, group: str) -> Any:
        given = self.merged.choices.get(group)
        value = given.value if given is not None else None
        if given is None and group in DEFAULTS:
            value = registry().unambiguous(GROUPS[group].kind, DEFAULTS[group])
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if value is None or isinstance(value, list):
            raise ConfigError(
                f"{group}={given.shown() if given else 'null'}: a run has exactly one {group.replace('_', ' ')}"
                f"{several_of(group) if value else ''}"
            )
        return value

    def _chosen(self, group: str) -> list[Node]:
        """Return the nodes of what was chosen for a part of the algorithm. Raises ConfigError."""
        given, info = self.merged.choices[group], GROUPS[group]
        value = [] if given.value is None else given.value if isinstance(given.value, list) else [given.value]
        if not value and not info.optional:
            raise ConfigError(
                f"{group}={given.shown()}: an algorithm always has one; known: {', '.join(names(info.kind))}"
            )
        if len(value) > 1 and not info.many:
            raise ConfigError(f"{group}={given.shown()}: expected one name, found a list of {len(value)}")
        return [named_node(self.shelf, info.kind, one, group) for one in value]

    def set_options(self) -> None:
        """Lay options over the composed nodes: shorter paths first, so that a part is there before its options.

        Raises ConfigError for every key and option that may not be set, at once.
        """
        wrong = list(self.unknown)
        wanted = [(p, g, False) for p, g in self.merged.settings.items()] + [
            (p, g, True) for p, g in self.merged.removed.items()
        ]
        for path, given, remove in sorted(wanted, key=lambda item: len(item[0])):
            group = path[0]
            if group not in self.nodes:
                continue
            key = ".".join(path)
            try:
                node, rest = members(self.shelf, group, self.nodes[group], path[1:], key)
                set_option(self.shelf, GROUPS[group].kind, node, rest, given, key, remove=remove)
            except ConfigError as error:
                wrong.append(f"{error}{self._was_of(group, path[-1])}")
        if wrong:
            raise ConfigError(wrong[0] if len(wrong) == 1 else "\n".join([f"{len(wrong)} settings are wrong:", *wrong]))

    def _was_of(self, group: str, option: str) -> str:
        """Return the end of a message about an option of the part that a choice has replaced."""
        if group not in self.replaced:
            return ""
        for node in self.own[group]:
            if option in node and option != "name":
                return f" ({option!r} is an option of {node['name']}, which {group}={self.replaced[group]} replaces)"
        return ""

    def finish(self) -> Experiment:
        """Build every component and check the whole."""
        algorithm = self._algorithm()
        parts = {g: build(self.shelf, GROUPS[g].kind, self.nodes[g][0], g) for g in self.nodes if g not in PARTS}
        data = {k: v for k, v in self.nodes["data"][0].items() if k != "name"}
        tree = read_settings(self.merged)
        tree["model"] = {**tree.get("model", {}), "source": read_as(str, self.merged.choices["model"], "model")}
        checked = settings_of({**tree, "data": {k: v for k, v in data.items() if v not in ("", None)}})
        dumped = checked.model_dump(mode="json", exclude={"data"})
        experiment = Experiment(
            settings=checked,
            algorithm=algorithm,
            dataset=parts["data"],
            reward=parts["reward"],
            reward_manager=parts["reward_manager"],
            environment=parts["environment"],
            sampler=parts["sampler"],
            order=parts["order"],
            optimizer=parts["optimizer"],
            schedule=parts["schedule"],
            trainer=parts["trainer"],
            weight_transfer=parts["weight_transfer"],
            # A file that resumes would go on with this run for ever, where it is meant to say how to begin another.
            resolved=anchored({**dumped, "resume": None, **self._resolved(algorithm)}),
        )
        check_options(self.shelf, self.merged, self.own, self.nodes)
        check_effects(experiment, self.merged, self.high, self.own, self.nodes)
        self._check_idle_options(experiment)
        return experiment

    def _check_idle_options(self, experiment: Experiment) -> None:
        """Raise ConfigError for an option of the algorithm that changes nothing, or only what nothing reads."""
        idle = idle_parts(experiment)
        for name, value in self.options.items():
            # A group too small for the factory's own estimator is put in beside its options.
            if value == self.factory.options[name].default or name == "group_size":
                continue
            without = self.factory.call({k: v for k, v in self.options.items() if k != name})
            changed = self.factory.changes(self.base, without)
            if not changed:
                raise ConfigError(f"algorithm.{name}={value} has no effect: {self.factory.name} makes no use of it")
            if changed <= idle:
                raise ConfigError(
                    f"algorithm.{name}={value} has no effect: nothing reads what {', '.join(sorted(changed))} makes"
                )

    def _algorithm(self) -> Algorithm:
        fields: dict[str, Any] = {}
        for group in PARTS:
            if self.nodes.get(group, []) == self.own[group]:
                continue
            built: list[Component] = [
                build(self.shelf, GROUPS[group].kind, node, group) for node in self.nodes.get(group, [])
            ]
            fields[group] = GROUPS[group].field(built)
        numbers = {**self.numbers}
        if "group_size" in self.options:
            numbers["group_size"] = self.options["group_size"]
        return replace(self.base, **fields, **numbers)

    def _resolved(self, algorithm: Algorithm) -> dict[str, Any]:
        """Return the parts as a file holds them: each with every option, so that a later default changes nothing."""
        tree: dict[str, Any] = {"data": self.nodes["data"][0]}
        defaults = {name: option.default for name, option in self.factory.options.items()}
        tree["algorithm"] = {
            "name": self.factory.name,
            **{name: self.options.get(name, default) for name, default in defaults.items()},
            **{name: getattr(algorithm, name) for name in self.base_numbers},
        }
        for group in PARTS:
            nodes = self.nodes.get(group, [])
            # What only the factory can make is left to it.
            if nodes == self.own[group] and any(self.shelf.is_own(GROUPS[group].kind, n["name"]) for n in nodes):
                continue
            tree[group] = None if not nodes else nodes[0] if len(nodes) == 1 else nodes
        further = [name for name, info in GROUPS.items() if not info.of_algorithm and name not in tree]
        return tree | {group: self.nodes[group][0] for group in further}
