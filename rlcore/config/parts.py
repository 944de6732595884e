"""Parts as nodes: a component and its options as plain values (`{name: gae, gamma: 1.0}`), and back.

The registry and the signatures are the only sources: a plugin ships no file for this.
"""

from __future__ import annotations

import enum
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore.component import Component, Option, bind, check, options, source_of
from rlcore.config.notation import Given
from rlcore.config.values import is_open, read_as
from rlcore.errors import ComponentError, ConfigError, RLCoreError, nearest
from rlcore.kinds import KINDS
from rlcore.registry import get, registry

Node = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """One key under which a part is chosen: the kind of its names, and whether it may be left out or be a list.

    `many`: the field of `Algorithm` is a tuple of parts; `alone`: one of them may stand there without a tuple.
    """

    kind: str
    optional: bool = False
    many: bool = False
    alone: bool = False
    of_algorithm: bool = True

    def field(self, parts: Sequence[Component]) -> Any:
        """Return parts as the field of `Algorithm` holds them."""
        if self.many and not (self.alone and len(parts) <= 1):
            return tuple(parts)
        return parts[0] if parts else None


GROUPS: dict[str, Group] = {
    "algorithm": Group("algorithm", of_algorithm=False),
    "advantage": Group("advantage", many=True, alone=True),
    "loss": Group("loss"),
    "reduction": Group("reduction"),
    "kl": Group("kl", optional=True),
    "kl_in_reward": Group("kl", optional=True),
    "filter": Group("filter", optional=True),
    "correction": Group("correction", optional=True, many=True, alone=True),
    "controller": Group("controller", optional=True),
    "value_loss": Group("loss", optional=True),
    "value_reduction": Group("reduction", optional=True),
    "shaping": Group("shaping", optional=True, many=True),
    "selects": Group("select", optional=True, many=True),
    "data": Group("dataset", of_algorithm=False),
    "reward": Group("reward", of_algorithm=False),
    "reward_manager": Group("reward_manager", of_algorithm=False),
    "environment": Group("environment", of_algorithm=False),
    "sampler": Group("sampler", of_algorithm=False),
    "order": Group("order", of_algorithm=False),
    "optimizer": Group("optimizer", of_algorithm=False),
    "schedule": Group("schedule", of_algorithm=False),
    "trainer": Group("trainer", of_algorithm=False),
    "weight_transfer": Group("weight_transfer", of_algorithm=False),
}
"""Every group of a configuration; those of the algorithm are the fields of `Algorithm` of that name."""

PARTS = tuple(name for name, group in GROUPS.items() if group.of_algorithm)


class Shelf:
    """Finds parts by name: the registered ones, and those that an algorithm's factory bound and nobody registered."""

    def __init__(self) -> None:
        self._own: dict[tuple[str, str], Component] = {}

    def find(self, kind: str, name: Any, key: str) -> Component:
        """Return a part. Raises UnknownNameError, RegistryError or ComponentError, with the key that asked."""
        if (kind, name) in self._own:
            return self._own[kind, name]
        if not isinstance(name, str) or not name or "\0" in name:
            raise ConfigError(f"{key}={name!r:.80}: expected the name of a part, or path/to/file.py:function")
        try:
            thing: Component = get(kind, name)
        except RLCoreError as error:
            hint = " To switch it off write null." if name.lower() in ("none", "off", "no", "false") else ""
            raise type(error)(f"{key}={name}: {error}{hint}") from error
        except Exception as error:  # importing a stranger's module may raise anything
            raise ConfigError(f"{key}={name}: cannot be loaded: {type(error).__name__}: {error}") from error
        if KINDS[kind].form == "component":
            check(kind, thing, table=registry().columns)
        elif not callable(thing):
            raise ComponentError(f"{key}={name} is {type(thing).__name__}, which cannot be called")
        return thing

    def name(self, kind: str, component: Component) -> str:
        """Return the name under which a part is found again: of several, the one bound most like it."""
        source = source_of(component)
        loaded = [(entry, _loaded(entry.thing)) for entry in registry().entries(kind)]
        same = [(entry, thing) for entry, thing in loaded if thing is not None and source_of(thing) is source]
        if same:
            # Where two are bound alike, the part itself comes before a name for some of its options.
            entry, _ = min(same, key=lambda found: (_differences(found[1], component), found[1] is not source))
            return entry.name if entry.name in registry().names(kind) else f"{entry.distribution}:{entry.name}"
        name = f"{source.__module__}:{source.__qualname__}"
        self._own[kind, name] = component
        return name

    def is_own(self, kind: str, name: str) -> bool:
        """Tell whether a name stands only for what a factory bound."""
        return (kind, name) in self._own


def _differences(one: Component, other: Component) -> int:
    """Return how many options of one function have another value in two bindings."""
    known = options(other)
    return sum(option.default != known[name].default for name, option in options(one).items())


def _loaded(thing: Any) -> Any:
    """Return what an entry stands for if it is imported already; asking must import nothing."""
    if not isinstance(thing, str):
        return thing
    module, _, attribute = thing.partition(":")
    return getattr(sys.modules.get(module), attribute, None)


def options_of(component: Component, key: str) -> dict[str, Option]:
    """Return a part's options. Raises ComponentError where its annotations cannot be read."""
    try:
        return options(component)
    except (NameError, TypeError, ValueError) as error:
        raise ComponentError(f"{key}: the signature of {source_of(component)!r} cannot be read: {error}") from error


def node_of(shelf: Shelf, kind: str, component: Component) -> Node:
    """Return a component as plain values: its name, and its options as they are bound."""
    node: Node = {"name": shelf.name(kind, component)}
    for option in options_of(component, kind).values():
        value = option.default
        if option.kind is not None and callable(value):
            node[option.name] = node_of(shelf, option.kind, value)
        elif value is not inspect.Parameter.empty and is_plain(value):
            node[option.name] = plain(value)
    return node


def is_plain(value: Any) -> bool:
    """Tell whether a value can be written in a file."""
    if isinstance(value, Mapping):
        return all(isinstance(k, str) and is_plain(v) for k, v in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return all(is_plain(v) for v in value)
    return value is None or isinstance(value, str | int | float | bool | Path | enum.Enum)


def plain(value: Any) -> Any:
    """Return a value as YAML's own types."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    if isinstance(value, enum.Enum):
        return plain(value.value)
    return str(value) if isinstance(value, Path) else value


def named_node(shelf: Shelf, kind: str, value: Any, key: str) -> Node:
    """Return the node of a chosen part: a name, or a mapping with `name` and options. Raises ConfigError."""
    if isinstance(value, Mapping):
        if "name" not in value:
            raise ConfigError(
                f"{key}: a part is written {{name: NAME, option: value}}; found the keys "
                f"{', '.join(map(str, value)) or 'none'}"
            )
        name, given = value["name"], {k: v for k, v in value.items() if k != "name"}
    else:
        name, given = value, {}
    node = {**node_of(shelf, kind, shelf.find(kind, name, key)), "name": name}
    for option, inner in given.items():
        set_option(shelf, kind, node, (str(option),), Given(inner), f"{key}.{option}")
    return node


def set_option(
    shelf: Shelf, kind: str, node: Node, path: tuple[str, ...], given: Given, key: str, *, remove: bool = False
) -> None:
    """Put one option into a node, in place; `path` may lead into an inner part or an open dictionary.

    Raises ConfigError for an unknown option, a value of the wrong type, or a path into what has no inside.
    """
    known = options_of(shelf.find(kind, node["name"], key), key)
    name, rest = path[0], path[1:]
    if name not in known:
        raise ConfigError(_no_option(kind, node["name"], name, known, key))
    option = known[name]
    if rest and option.kind is not None:
        inner = node.get(name)
        if not isinstance(inner, dict):
            raise ConfigError(
                f"{key}: {name} of {node['name']} is null; choose one first: {key.rsplit('.', 1)[0]}={{name: NAME}}"
            )
        set_option(shelf, option.kind, inner, rest, given, key, remove=remove)
    elif rest and is_open(option.annotation):
        _put(node.setdefault(name, {}) or {}, rest, given, key, node, name, remove=remove)
    elif rest:
        raise ConfigError(
            f"{key}: {name} of {node['name']} has nothing inside; set {key.removesuffix('.' + '.'.join(rest))}=VALUE"
        )
    elif option.kind is not None:
        node[name] = None if given.value is None else named_node(shelf, option.kind, given.value, key)
    else:
        node[name] = plain(read_as(option.annotation, given, key))


def _put(
    tree: dict[str, Any], path: tuple[str, ...], given: Given, key: str, node: Node, name: str, *, remove: bool
) -> None:
    """Set or remove one key of an open dictionary, which may hold others."""
    root = tree
    for word in path[:-1]:
        tree = tree.setdefault(word, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"{key}: {word!r} is a value already, nothing can stand inside it")
    if remove and path[-1] not in tree:
        raise ConfigError(
            f"~{key}: there is no such key; there are: {', '.join(tree) or 'none'}.{nearest(path[-1], tree)}"
        )
    if remove:
        del tree[path[-1]]
    else:
        tree[path[-1]] = given.value
    node[name] = root


def _no_option(kind: str, name: str, option: str, known: Mapping[str, Any], key: str) -> str:
    listed = ", ".join(known) or "none"
    return (
        f"{key}: {kind.replace('_', ' ')} {name!r} has no option {option!r}; options: {listed}.{nearest(option, known)}"
    )


def build(shelf: Shelf, kind: str, node: Node, key: str) -> Component:
    """Return the component of a node; only what differs from the part itself is bound.

    Raises ConfigError for an option that must be set and is not.
    """
    component = shelf.find(kind, node["name"], key)
    known = options_of(component, key)
    now = node_of(shelf, kind, component)
    changed: dict[str, Any] = {}
    for name, option in known.items():
        if name not in node:
            if option.default is inspect.Parameter.empty:
                raise ConfigError(f"{key}.{name} must be set: {node['name']} has no default for it")
            continue
        if name in now and now[name] == node[name]:
            continue
        value = node[name]
        if option.kind is not None and isinstance(value, Mapping):
            changed[name] = build(shelf, option.kind, dict(value), f"{key}.{name}")
        else:
            changed[name] = read_as(option.annotation, Given(value), f"{key}.{name}") if option.kind is None else value
    return bind(component, **changed)
