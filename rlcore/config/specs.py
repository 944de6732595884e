"""Components as plain data, `{name: gae, gamma: 1.0}`, and back.

The registry and the signatures are the only sources: a plugin ships no file for this.
"""

from __future__ import annotations

import enum
import inspect
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rlcore.coercion import coerce, is_mapping
from rlcore.component import Component, as_tuple, bind, options, source_of
from rlcore.config.overrides import Override, put
from rlcore.errors import ComponentError, ConfigError, RLCoreError, nearest
from rlcore.kinds import GROUPS, KINDS, SLOTS, ConfigGroup, Kind
from rlcore.registry import Entry, registry

Spec = dict[str, Any]
Specs = dict[str, list[Spec]]
Texts = Mapping[str, tuple[str, str]]


def configuration_groups() -> dict[str, tuple[Kind, ConfigGroup]]:
    """Return the configuration groups in which there is something to choose, by key."""
    kinds = {name for name in KINDS if any(True for _ in registry().entries(name))}
    return {key: (kind, group) for key, (kind, group) in GROUPS.items() if kind.name in kinds}


def find_component(kind: str, name: Any, key: str) -> Component:
    """Return a component by name. Raises UnknownNameError, RegistryError or ComponentError, with the key that asked."""
    if callable(name):
        return name  # what a factory bound and nobody registered
    if not isinstance(name, str) or not name or "\0" in name:
        raise ConfigError(f"{key}={name!r:.80}: expected a registered name, or path/to/file.py:function")
    try:
        thing: Component = registry().get(kind, name)
    except RLCoreError as error:
        hint = " To switch it off write null." if name.lower() in ("none", "off", "no", "false") else ""
        if "," in name and ".py:" not in name:
            hint = f" Several are written {key}=[{name}]."
        raise type(error)(f"{key}={name}: {error}{hint}") from error
    except Exception as error:  # importing a stranger's module may raise anything
        raise ConfigError(f"{key}={name}: cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(thing):
        raise ComponentError(f"{key}={name} is {type(thing).__name__}, which cannot be called")
    return thing


def default_name(kind: str, default: Any) -> Any:
    """Return a default, or a list of them, so that it means rlcore's own where a stranger's package has the name."""
    if isinstance(default, list | tuple):
        return [registry().unambiguous(kind, name) for name in default]
    return registry().unambiguous(kind, default) if isinstance(default, str) else default


def registered_name(kind: str, component: Component) -> Any:
    """Return the name under which a component is found again: of several, the one bound most like it.

    A component that nobody registered is its own name.
    """
    source = source_of(component)
    bound = {name: option.default for name, option in options(component).items()}
    candidates: list[tuple[int, bool, int, Entry]] = []
    for entry in registry().entries(kind):
        thing = entry.thing
        if isinstance(thing, str):
            # An entry whose module nobody has imported is not the one, and asking must import nothing.
            module, _, attribute = thing.partition(":")
            thing = getattr(sys.modules.get(module), attribute, None)
        if thing is not None and source_of(thing) is source:
            differences = sum(option.default != bound[name] for name, option in options(thing).items())
            # Where two are bound alike, the component itself comes before a name for some of its options.
            candidates.append((differences, thing is not source, len(candidates), entry))
    if not candidates:
        return component
    entry = min(candidates)[3]
    ours = entry.distribution == "rlcore" and (kind, entry.name) not in registry().clashes()
    return entry.name if ours else f"{entry.distribution}:{entry.name}"


def spec_of(kind: str, component: Component, name: Any = None) -> Spec:
    """Return the spec of a component: its name, and its options as they are bound."""
    spec: Spec = {"name": registered_name(kind, component) if name is None else name}
    for option in options(component).values():
        value = option.default
        if option.kind is not None and callable(value):
            spec[option.name] = spec_of(option.kind, value)
        elif value is not inspect.Parameter.empty and is_plain(value):
            spec[option.name] = plain(value)
    return spec


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


def specs_of(algorithm: Any) -> Specs:
    """Return the specs of the components in each slot of an algorithm."""
    slots = [slot for slot in SLOTS if hasattr(algorithm, slot)]
    return {
        slot: [spec_of(GROUPS[slot][0].name, each) for each in as_tuple(getattr(algorithm, slot))] for slot in slots
    }


def named_spec(kind: str, value: Any, key: str, texts: Texts | None = None) -> Spec:
    """Return the spec of a choice: a name, or a mapping with `name` and options. Raises ConfigError."""
    if isinstance(value, Mapping) and "name" not in value:
        raise ConfigError(
            f"{key}: a component is written {{name: NAME, option: value}}; found the keys "
            f"{', '.join(map(str, value)) or 'none'}"
        )
    name, further = (value["name"], value) if isinstance(value, Mapping) else (value, {})
    component = find_component(kind, name, key)
    if isinstance(name, str) and ":" not in name:
        # A stranger's name is kept with its distribution, so that it means the same beside another package.
        distribution = registry().entry(kind, name).distribution
        name = name if distribution == "rlcore" else f"{distribution}:{name}"
    spec = spec_of(kind, component, name)
    for option, inner in further.items():
        if option != "name":
            set_option(kind, spec, str(option), inner, f"{key}.{option}", texts)
    return spec


def set_option(
    kind: str, spec: Spec, name: str, value: Any, key: str, texts: Texts | None = None, line: Iterable[str] = ()
) -> None:
    """Put one option into a spec, in place. A mapping may hold the options of an inner component.

    `texts` are values as a command line wrote them; `line` its keys: those inside an open dictionary add to it.
    Raises ConfigError for an unknown option, a value of the wrong type, or options of what has none.
    """
    known = options(find_component(kind, spec["name"], key))
    if name not in known:
        raise ConfigError(_no_option(kind, shown_name(spec), name, known, key))
    option, text = known[name], (texts or {}).get(key)
    if option.kind is not None and isinstance(value, Mapping) and "name" not in value:
        inner = spec.get(name)
        if not isinstance(inner, dict):
            first = next(iter(value), "")
            raise ConfigError(
                f"{key}.{first}: {name} of {shown_name(spec)} is null; choose one first: {key}={{name: NAME}}"
            )
        for word, one in value.items():
            set_option(option.kind, inner, str(word), one, f"{key}.{word}", texts, line)
    elif option.kind is not None and (value is None or isinstance(value, str | Mapping)):
        spec[name] = None if value is None else named_spec(option.kind, value, key, texts)
    elif option.kind is not None:
        spec[name] = [named_spec(option.kind, one, key, texts) for one in value] if isinstance(value, list) else value
    elif isinstance(value, Mapping) and is_mapping(option.annotation):
        added = {one[len(key) + 1 :].partition(".")[0] for one in line if one.startswith(f"{key}.")}
        before = spec.get(name) or {}
        # Whoever wrote the whole dictionary means that one; single keys of a command line add to what is there.
        spec[name] = {**before, **value} if added and added >= value.keys() else dict(value)
    elif isinstance(value, Mapping) and text is None and value:
        inside = f"{key}.{next(iter(value))}"
        raise ConfigError(f"{inside}: {name} of {shown_name(spec)} has nothing inside; set {key}=VALUE")
    else:
        written, problem = text or (None, "")
        spec[name] = plain(coerce(option.annotation, value, key, text=written, problem=problem))


def remove_key(kind: str, spec: Spec, path: tuple[str, ...], key: str) -> None:
    """Take one key of an open dictionary out of a spec, in place. Raises ConfigError where there is none."""
    known = options(find_component(kind, spec["name"], key))
    if path[0] not in known:
        raise ConfigError(_no_option(kind, shown_name(spec), path[0], known, key))
    if len(path) < 2 or not is_mapping(known[path[0]].annotation):
        raise ConfigError(f"~{key}: a setting cannot be taken away; left out, it has its default")
    tree = spec[path[0]] = dict(spec.get(path[0]) or {})
    for word in path[1:-1]:
        tree[word] = dict(tree[word]) if isinstance(tree.get(word), Mapping) else {}
        tree = tree[word]
    if path[-1] not in tree:
        raise ConfigError(
            f"~{key}: there is no such key; there are: {', '.join(tree) or 'none'}.{nearest(path[-1], tree)}"
        )
    del tree[path[-1]]


def shown_name(spec: Mapping[str, Any]) -> str:
    """Return the name of a spec for people."""
    name = spec["name"]
    return name if isinstance(name, str) else str(getattr(source_of(name), "__name__", name))


def _no_option(kind: str, name: str, option: str, known: Mapping[str, Any], key: str) -> str:
    listed = ", ".join(known) or "none"
    return (
        f"{key}: {kind.replace('_', ' ')} {name!r} has no option {option!r}; options: {listed}.{nearest(option, known)}"
    )


def build(kind: str, spec: Mapping[str, Any], key: str) -> Component:
    """Return the component of a spec; only what differs from the component itself is bound.

    Raises ConfigError for an option that must be set and is not.
    """
    component = find_component(kind, spec["name"], key)
    now = spec_of(kind, component, spec["name"])
    changed: dict[str, Any] = {}
    for name, option in options(component).items():
        if name not in spec:
            if option.default is inspect.Parameter.empty:
                raise ConfigError(f"{key}.{name} must be set: {shown_name(spec)} has no default for it")
            continue
        if name in now and now[name] == spec[name]:
            continue
        value = spec[name]
        if option.kind is not None and isinstance(value, Mapping):
            changed[name] = build(option.kind, value, f"{key}.{name}")
        elif option.kind is not None and isinstance(value, list):
            changed[name] = tuple(build(option.kind, one, f"{key}.{name}") for one in value)
        else:
            changed[name] = value
    return bind(component, **changed)


def component_of(kind: str, value: Any, key: str) -> Component:
    """Return the component of a choice: a name, or a mapping with `name` and options. Raises what `load` raises."""
    return build(kind, named_spec(kind, value, key), key)


def configured(group: str, choice: Any, overrides: Iterable[Override] = ()) -> Component:
    """Return a choice of a group with the `group.option=value` among the overrides bound, as `load` does it.

    Raises what `load` raises: UnknownNameError, RegistryError, ComponentError, ConfigError.
    """
    kind = GROUPS[group][0].name
    own = {tuple(override.key.split(".")): override for override in overrides if override.key.split(".")[0] == group}
    spec = named_spec(kind, choice, group)
    tree: dict[str, Any] = {group: {}}
    # Shorter keys first, so that a component is there before its options.
    for path in sorted(own, key=len):
        if len(path) == 1:
            raise ConfigError(f"{group}={own[path].shown()}: the {group} is {shown_name(spec)} already")
        if own[path].sign != "~":
            put(tree, path, own[path].value)
    texts = {override.key: (override.text, override.problem) for override in own.values()}
    for name, value in tree[group].items():
        set_option(kind, spec, name, value, f"{group}.{name}", texts, list(texts))
    for path, override in own.items():
        if override.sign == "~":
            remove_key(kind, spec, path[1:], override.key)
    return build(kind, spec, group)
