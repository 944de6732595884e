"""Every key that may be set, and what to say about one that may not."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Collection, Mapping
from typing import Any

from pydantic.fields import FieldInfo

from rlcore.errors import closest
from rlcore.kinds import GROUPS
from rlcore.settings import Settings, sections


def setting_keys() -> list[str]:
    """Return the dotted keys of all settings that are no components."""
    keys = []
    for name in Settings.model_fields:
        if name not in GROUPS:
            section = sections().get(name)
            keys += [name] if section is None else [f"{name}.{inner}" for inner in section.model_fields]
    return keys


def setting_named(key: str) -> tuple[FieldInfo, str] | None:
    """Return the field of a setting, and what its text in `rlcore.settings` says ("" without one); None for no setting.

    Raises OSError where the source of the settings is not there.
    """
    if key not in setting_keys():
        return None
    head, _, name = key.rpartition(".")
    part = sections()[head] if head else Settings
    lines = ast.parse(textwrap.dedent(inspect.getsource(part))).body[0].body  # type: ignore[attr-defined]
    for line, after in itertools.pairwise((*lines, ast.Pass())):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.target.id == name:
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            return part.model_fields[name], inspect.cleandoc(str(text))
    return part.model_fields[name], ""


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
        elif key not in Settings.model_fields or (isinstance(value, Mapping) and section is None):
            wrong.append(unknown_key(_path_below(key, value), options))
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


def wrong_sign(signs: Mapping[str, str], options: Mapping[str, list[str]], opened: Collection[str]) -> list[str]:
    """Return what is to be said of each `+` before a key that is there already."""
    known = {*setting_keys(), *GROUPS, "model", *(f"{group}.{name}" for group, own in options.items() for name in own)}
    return [
        f"{sign}{key}: {key} exists already; drop the {sign} and write {key}=VALUE"
        for key, sign in signs.items()
        if sign == "+" and key in known and not any(key.startswith(f"{each}.") for each in opened)
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
