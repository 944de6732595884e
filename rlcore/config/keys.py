"""Every key that may be set, and what to say about one that may not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pydantic.fields import FieldInfo

from rlcore.errors import closest, nearest
from rlcore.kinds import GROUPS
from rlcore.settings import Role, Settings, sections


def setting_keys() -> list[str]:
    """Return the dotted keys of all settings that are no components."""
    keys = []
    for name in Settings.model_fields:
        if name not in GROUPS:
            section = sections().get(name)
            keys += [name] if section is None else [f"{name}.{inner}" for inner in section.model_fields]
    return keys


def setting_field(key: str) -> FieldInfo | None:
    """Return the field of a setting, whose description says what it is; None for no setting."""
    head, _, name = key.rpartition(".")
    return (sections()[head] if head else Settings).model_fields[name] if key in setting_keys() else None


def unknown_keys(tree: Mapping[str, Any], options: Mapping[str, list[str]], line: Collection[str]) -> list[str]:
    """Return what is to be said of each key that is no setting and under no group.

    `options` are those of each group's component, `line` the keys of the command line, whose depth is known.
    """
    wrong = []
    # In the order of the command line, as whoever typed it reads it.
    for key, value in sorted(tree.items(), key=lambda item: _place(item[0], line)):
        if key in GROUPS:
            continue
        section = sections().get(key)
        if section is not None and isinstance(value, Mapping):
            fields = section.model_fields
            paths = [(key, *_inside(name, one, name in fields, line, key)) for name, one in value.items()]
            wrong += [unknown_key(path, options) for path in paths if path[1:] not in {(name,) for name in fields}]
        elif key == "roles" and isinstance(value, Mapping):
            wrong += unknown_role_keys(value)
        elif key not in Settings.model_fields or (isinstance(value, Mapping) and section is None):
            wrong.append(unknown_key(_path_below(key, value), options))
    return wrong


def unknown_role_keys(roles: Mapping[str, Any]) -> list[str]:
    """Return what is to be said of each key of a role that is no setting of one."""
    wrong, known = [], list(Role.model_fields)
    for role, own in roles.items():
        if not isinstance(own, Mapping):
            wrong.append(f"roles.{role}={own}: a role has settings of its own: {', '.join(known)}")
            continue
        wrong += [
            f"roles.{role}.{name}: no such setting; a role has: {', '.join(known)}.{nearest(name, known)}"
            for name in own.keys() - known
        ]
    return wrong


def _place(key: str, line: Collection[str]) -> int:
    return next((i for i, one in enumerate(line) if one.partition(".")[0] == key), len(line))


def _inside(name: str, value: Any, known: bool, line: Collection[str], head: str) -> tuple[str, ...]:
    """Return the path that was meant below a section: a mapping that nobody wrote as one is a longer key."""
    deeper = isinstance(value, Mapping) and value and (not known or f"{head}.{name}" not in line)
    return _path_below(name, value) if deeper else (name,)


def _path_below(key: str, value: Any) -> tuple[str, ...]:
    path = [key]
    while isinstance(value, Mapping) and len(value) == 1:
        ((word, value),) = value.items()
        path.append(str(word))
    return tuple(path)


def wrong_sign(added: Iterable[str], options: Mapping[str, list[str]], opened: Collection[str]) -> list[str]:
    """Return what is to be said of each key with a `+` that is there already.

    `opened` are options that are dictionaries, in which a key may be new.
    """
    known = {*setting_keys(), *GROUPS, "model", *(f"{group}.{name}" for group, own in options.items() for name in own)}
    return [
        f"+{key}: {key} exists already; drop the + and write {key}=VALUE"
        for key in added
        if key in known and not any(key.startswith(f"{each}.") for each in opened)
    ]


def unknown_key(path: tuple[str, ...], options: Mapping[str, list[str]]) -> str:
    """Return the message for a key that does not exist: where one of its name may stand, or the nearest key."""
    key = ".".join(path)
    keys = [*setting_keys(), *(f"{group}.{name}" for group, names in options.items() for name in names), *GROUPS]
    homes = [k for k in keys if k.rpartition(".")[2] == path[-1] and k != key]
    if homes:
        return f"{key}: no such setting; {path[-1]!r} may stand as {' or '.join(homes[:4])}."
    first = path[0]
    if len(path) > 1 and first in sections() and first not in GROUPS:
        inside = list(sections()[first].model_fields)
        close = closest(path[-1], inside)
        return f"{key}: {first} has no setting {'.'.join(path[1:])!r}; it has: {', '.join(inside)}." + (
            f" Did you mean {first}.{close}?" if close else ""
        )
    close = closest(key, keys) or _leaf(path[-1], keys)
    tops = ", ".join(dict.fromkeys([*(k.partition(".")[0] for k in setting_keys()), *GROUPS]))
    return f"{key}: no such setting." + (f" Did you mean {close}?" if close else f" Known: {tops}.")


def _leaf(word: str, keys: list[str]) -> str:
    """Return the key whose last word is nearest."""
    found = closest(word, {k.rpartition(".")[2] for k in keys})
    return next((k for k in keys if k.rpartition(".")[2] == found), "") if found else ""
