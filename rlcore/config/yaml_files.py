"""YAML files: YAML 1.2's plain values, read and written.

PyYAML's own reading (1e-6 is text there, `no` is False, 010 is 8), which Hydra and OmegaConf share, is not what a
person expects of a value, so files are read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rlcore.errors import ConfigError, nearest

RESOLVERS = (
    ("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("tag:yaml.org,2002:null", re.compile(r"^(?:null|Null|NULL|~|)$"), ["n", "N", "~", ""]),
    ("tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        re.compile(
            r"^[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.(?:inf|Inf|INF))$|^\.(?:nan|NaN|NAN)$"
        ),
        list("-+.0123456789"),
    ),
)


class _Loader(yaml.SafeLoader):
    """Reads YAML 1.2's plain values; no anchors (a few lines of them can stand for gigabytes), no key twice."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as PyYAML declares it

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(
                None, None, "aliases (*name) are not read here", self.peek_event().start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        found = super().construct_mapping(node, deep=deep)
        keys = [key.value for key, _ in node.value]
        twice = sorted({key for key in keys if isinstance(key, str) and keys.count(key) > 1})
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice[0]!r} stands twice", node.start_mark)
        return found


class _Dumper(yaml.SafeDumper):
    """Writes what `_Loader` reads back equal."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as PyYAML declares it

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Escape what YAML takes for a line break of its own."""
        quoted = any(mark in text for mark in "\x85\u2028\u2029")
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if quoted else None)


_Dumper.add_representer(str, _Dumper.represent_text)


for _tag, _pattern, _first in RESOLVERS:
    _Loader.add_implicit_resolver(_tag, _pattern, _first)
    _Dumper.add_implicit_resolver(_tag, _pattern, _first)
# A text that PyYAML's own rules would take for something else is quoted, so that other readers agree.
for _letter, _rules in yaml.SafeDumper.yaml_implicit_resolvers.items():
    _Dumper.yaml_implicit_resolvers.setdefault(_letter, []).extend(_rules)


def read_yaml(text: str) -> Any:
    """Return what a YAML text holds. Raises ConfigError with the place of a fault."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise ConfigError(f"{place}{getattr(error, 'problem', None) or type(error).__name__}") from error


def to_yaml(tree: Mapping[str, Any]) -> str:
    """Return a tree of plain values as the YAML of a configuration, which `load` reads back equal.

    `${` in a text is written with a backslash: in a configuration it would begin an interpolation.
    """
    return str(
        yaml.dump(
            escaped(dict(tree)),
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            default_flow_style=False,
            width=120,
        )
    )


def escaped(tree: Any) -> Any:
    """Return a tree whose texts OmegaConf resolves to what they are: `${` has a backslash before it."""
    if isinstance(tree, Mapping):
        return {key: escaped(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [escaped(value) for value in tree]
    # Backslashes before it are doubled: OmegaConf takes them for signs of escape there, and only there.
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", tree) if isinstance(tree, str) else tree


def read_file(path: Path) -> dict[str, Any]:
    """Return the tree of an experiment's file. Raises ConfigError naming it, and the nearest if it is not there."""
    path = Path(path).expanduser()
    if path.is_dir():
        inside = path / "config.yaml"
        raise ConfigError(
            f"{str(path)!r} is a folder"
            + (f"; did you mean {str(inside)!r}?" if inside.is_file() else "; give a YAML file")
        )
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        beside = (
            [p.name for p in path.parent.iterdir() if p.suffix in (".yaml", ".yml")] if path.parent.is_dir() else []
        )
        raise ConfigError(f"there is no file {str(path)!r}.{nearest(path.name, beside)}") from None
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error}") from error
    return read_tree(text, str(path))


def read_tree(text: str, where: str) -> dict[str, Any]:
    """Return a YAML text as a mapping of words to values. Raises ConfigError naming where it stands."""
    try:
        tree = read_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{where} is not YAML: {error}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{where} holds {type(tree).__name__}; expected `key: value` lines")
    return tree
