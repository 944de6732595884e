"""Every key that may be set, and what to say about one that may not."""

from __future__ import annotations

import ast
import difflib
import inspect
import itertools
import textwrap
from collections.abc import Iterable

from pydantic.fields import FieldInfo

from rlcore.config.layers import Layer, section, sections
from rlcore.config.parts import GROUPS, Shelf, options_of
from rlcore.config.values import is_open
from rlcore.errors import ConfigError, RLCoreError
from rlcore.settings import Settings


def setting_keys() -> list[str]:
    """Return the dotted keys of all settings that are no parts."""
    keys = []
    for name in Settings.model_fields:
        if name == "data":
            continue
        part = section(Settings, name)
        keys += [name] if part is None else [f"{name}.{inner}" for inner in part.model_fields]
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


def unknown_keys(layer: Layer, options: dict[str, list[str]]) -> list[str]:
    """Return what is to be said of each key that is no setting and under no group.

    `options` are those of each group's part.
    """
    known = setting_keys()
    paths = [path for path in layer.settings if path[0] not in GROUPS and ".".join(path) not in known]
    return [unknown_key(path, options) for path in paths]


def check_signs(layer: Layer, options: dict[str, list[str]], open_keys: Iterable[str]) -> None:
    """Raise ConfigError for `+`, `++` or `~` anywhere but under an open dictionary."""
    known = {
        *setting_keys(),
        *GROUPS,
        "model",
        *(f"{group}.{name}" for group, names in options.items() for name in names),
    }
    opened = tuple(open_keys)
    for path, sign in layer.signs.items():
        key = ".".join(path)
        if any(key.startswith(f"{o}.") for o in opened):
            continue
        if sign == "~":
            if key in known:
                raise ConfigError(f"~{key}: a setting cannot be taken away; left out, it has its default")
            raise ConfigError(f"~{unknown_key(path, options)}")
        if key in known or _without_member(path) in known:
            raise ConfigError(f"{sign}{key}: {key} exists already; drop the {sign} and write {key}=VALUE")
        raise ConfigError(f"{sign}{unknown_key(path, options)} New keys may only be added under {_opened(opened)}")


def _without_member(path: tuple[str, ...]) -> str:
    return f"{path[0]}.{path[-1]}"


def _opened(opened: tuple[str, ...]) -> str:
    return ", ".join(opened) if opened else "an open dictionary, which none of the chosen parts has"


def unknown_key(path: tuple[str, ...], options: dict[str, list[str]]) -> str:
    """Return the message for a key that does not exist: where one of its name may stand, or the nearest key."""
    key = ".".join(path)
    keys = [*setting_keys(), *(f"{group}.{name}" for group, names in options.items() for name in names), *GROUPS]
    homes = [k for k in keys if k.rpartition(".")[2] == path[-1] and k != key]
    if homes:
        return f"{key}: no such setting; {path[-1]!r} may stand as {' or '.join(homes[:4])}."
    first = path[0]
    if len(path) > 1 and first in sections() and first != "data":
        inside = list(sections()[first].model_fields)
        close = _close(path[-1], inside)
        return f"{key}: {first} has no setting {'.'.join(path[1:])!r}; it has: {', '.join(inside)}." + (
            f" Did you mean {first}.{close}?" if close else ""
        )
    close = _close(key, keys) or _leaf(path[-1], keys)
    tops = ", ".join(dict.fromkeys([*(k.partition(".")[0] for k in setting_keys()), *GROUPS]))
    return f"{key}: no such setting." + (f" Did you mean {close}?" if close else f" Known: {tops}.")


def _close(word: str, words: Iterable[str]) -> str:
    return next(iter(difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)), "")


def _leaf(word: str, keys: list[str]) -> str:
    """Return the key whose last word is nearest."""
    found = _close(word, {k.rpartition(".")[2] for k in keys})
    return next((k for k in keys if k.rpartition(".")[2] == found), "") if found else ""


def open_keys(shelf: Shelf, group: str, nodes: Iterable[dict[str, object]]) -> list[str]:
    """Return the keys of a group's open dictionaries."""
    found = []
    for node in nodes:
        try:
            known = options_of(shelf.find(GROUPS[group].kind, node["name"], group), group)
        except RLCoreError:
            continue
        found += [f"{group}.{name}" for name, option in known.items() if is_open(option.annotation)]
    return found
