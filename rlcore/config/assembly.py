"""The algorithm of a configuration: what its factory makes of its options, with parts replaced and options set."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlcore.algorithm import Algorithm
from rlcore.component import Component, bind
from rlcore.config.layers import Layer, Path
from rlcore.config.notation import Given
from rlcore.config.parts import GROUPS, PARTS, Node, Shelf, node_of, options_of
from rlcore.config.values import read_as
from rlcore.errors import ComponentError, ConfigError, nearest

Nodes = dict[str, list[Node]]


@functools.cache
def number_fields() -> dict[str, type]:
    """Return the numbers and switches of an Algorithm, which may be set if its factory has an option of them or not."""
    hints = typing.get_type_hints(Algorithm)
    return {
        field.name: hints[field.name]
        for field in dataclasses.fields(Algorithm)
        if hints[field.name] in (int, float, bool)
    }


@dataclass
class Factory:
    """A named algorithm's factory and the options that somebody set."""

    shelf: Shelf
    name: str
    make: Component

    @property
    def options(self) -> dict[str, Any]:
        """The factory's options by name."""
        return options_of(self.make, "algorithm")

    def read(self, settings: Mapping[Path, Given]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what `algorithm.*` says: the factory's options, and numbers that it has no option for."""
        known, numbers = self.options, number_fields()
        given: dict[str, Any] = {}
        further: dict[str, Any] = {}
        for path, value in settings.items():
            key = ".".join(("algorithm", *path))
            if len(path) == 1 and path[0] in known:
                given[path[0]] = read_as(known[path[0]].annotation, value, key)
            elif len(path) == 1 and path[0] in numbers:
                further[path[0]] = read_as(numbers[path[0]], value, key)
            else:
                listed = list(dict.fromkeys((*known, *numbers)))
                homes = [group for group in PARTS if path[0] == group]
                hint = f" The part is chosen by {homes[0]}=NAME." if homes else nearest(path[0], listed)
                raise ConfigError(
                    f"{key}: algorithm {self.name!r} has no option {'.'.join(path)!r}; options: "
                    f"{', '.join(listed)}.{hint}"
                )
        return given, further

    def call(self, given: Mapping[str, Any]) -> Algorithm:
        """Return the algorithm of some options. Raises ComponentError for a factory that makes something else."""
        try:
            made = bind(self.make, **given)()
        except ConfigError:
            # A group of one may be too small for the factory's own estimator and fit the one that replaces it; it is
            # put in together with that one.
            if "group_size" not in given:
                raise
            made = bind(self.make, **{k: v for k, v in given.items() if k != "group_size"})()
        if not isinstance(made, Algorithm):
            raise ComponentError(
                f"algorithm={self.name} made {type(made).__name__}; a configuration can only set an Algorithm"
            )
        return made

    def nodes(self, algorithm: Algorithm) -> Nodes:
        """Return the nodes of the parts that an algorithm has."""
        found: Nodes = {}
        for group in PARTS:
            part = getattr(algorithm, group)
            parts = part if isinstance(part, tuple) else () if part is None else (part,)
            found[group] = [node_of(self.shelf, GROUPS[group].kind, one) for one in parts]
        return found

    def changes(self, one: Algorithm, other: Algorithm) -> set[str]:
        """Return the fields in which two algorithms differ."""
        a, b = self.nodes(one), self.nodes(other)
        parts = {group for group in PARTS if a[group] != b[group]}
        rest = {f.name for f in dataclasses.fields(Algorithm)} - set(PARTS) - {"name"}
        return parts | {name for name in rest if getattr(one, name) != getattr(other, name)}


def carry_over(factory: Factory, low: Layer, high: Layer, merged: Layer) -> None:
    """Let the options of the command line's `algorithm.*` reach parts whose options a file spells out, in place.

    A run's own config.yaml names every option of every part; `algorithm.clip=0.3` on top of it must still mean what it
    means elsewhere.
    """
    fresh = high.of("algorithm")
    if "algorithm" in high.choices or not fresh or not low.has("algorithm"):
        return
    before = factory.call(factory.read(low.of("algorithm"))[0])
    after = factory.call(factory.read(merged.of("algorithm"))[0])
    old, new = factory.nodes(before), factory.nodes(after)
    for group in PARTS:
        if group in high.choices or len(old[group]) != len(new[group]):
            continue
        for place, (was, now) in enumerate(zip(old[group], new[group], strict=True)):
            for option in {k for k in now if was.get(k) != now[k]} - {"name"}:
                _reach(merged, high, group, place, now, option)
    for name in number_fields():
        if (
            getattr(before, name) != getattr(after, name)
            and ("algorithm", name) not in high.settings
            and name not in factory.options
        ):
            merged.settings.pop(("algorithm", name), None)


def _reach(merged: Layer, high: Layer, group: str, place: int, node: Node, option: str) -> None:
    """Put one option of a factory's part where the file spells it, unless the command line says otherwise."""
    choice = merged.choices.get(group)
    if (group, option) not in high.settings and (group, option) in merged.settings:
        merged.settings[group, option] = Given(node[option])
    members = choice.value if choice is not None and isinstance(choice.value, list) else []
    if (
        place < len(members)
        and isinstance(members[place], dict)
        and members[place].get("name") == node["name"]
        and option in members[place]
    ):
        listed = [{**m, option: node[option]} if i == place else m for i, m in enumerate(members)]
        merged.choices[group] = Given(listed, where=choice.where if choice else "")


def effective(
    factory: Factory, given: dict[str, Any], replaced: Mapping[str, str], low: Layer, high: Layer
) -> dict[str, Any]:
    """Return the factory's options without those that only feed parts which the command line has replaced.

    Raises ConfigError for an option that whoever set it replaced at once: it has no effect.
    """
    kept = dict(given)
    for name in list(given):
        if name in number_fields():
            continue
        without = {k: v for k, v in kept.items() if k != name}
        changed = factory.changes(factory.call(kept), factory.call(without))
        fed = changed & set(PARTS)
        if not fed or not changed <= set(replaced):
            continue
        older = ("algorithm", name) not in high.settings and ("algorithm", name) in low.settings
        if older and any(group in high.choices for group in fed):
            kept = without
            continue
        group = sorted(fed)[0]
        raise ConfigError(
            f"algorithm.{name}={given[name]} has no effect: it is an option of the {group} that {factory.name} comes "
            f"with, and {group}={replaced[group]} replaces that one"
        )
    return kept


def members(shelf: Shelf, group: str, nodes: list[Node], path: Path, key: str) -> tuple[Node, Path]:
    """Return the node of a group that an option belongs to, and the rest of its path.

    In a list the option alone is enough where one part has it; else the part's name or place stands before it.
    """
    if not nodes:
        raise ConfigError(f"{key}: there is no {group}; choose one first: {group}=NAME")
    if len(nodes) == 1 and path[0] not in ("0", nodes[0]["name"]):
        return nodes[0], path
    if len(path) > 1 and path[0].isdecimal() and int(path[0]) < len(nodes):
        return nodes[int(path[0])], path[1:]
    named = [node for node in nodes if node["name"] == path[0]]
    if named and len(path) > 1:
        return named[0], path[1:]
    owners = [n for n in nodes if path[0] in options_of(shelf.find(GROUPS[group].kind, n["name"], key), key)]
    if len(owners) > 1:
        listed = " or ".join(f"{group}.{node['name']}.{path[0]}" for node in owners)
        raise ConfigError(f"{key}: {len(owners)} parts of {group} have this option; write {listed}")
    if not owners:
        known = {o: n["name"] for n in nodes for o in options_of(shelf.find(GROUPS[group].kind, n["name"], key), key)}
        listed = ", ".join(f"{o} (of {n})" for o, n in known.items()) or "none"
        raise ConfigError(
            f"{key}: no part of {group} has the option {path[0]!r}; options: {listed}.{nearest(path[0], known)}"
        )
    return owners[0], path
