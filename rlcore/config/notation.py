"""How values are written: YAML 1.2 in files, `key=value` on the command line.

Neither PyYAML's own reading (1e-6 is text there, `no` is False, 010 is 8) nor Hydra's (`a,b` starts a sweep, `a b` and
a Windows path are syntax errors, `${...}` reads the environment) is what a person expects of a value, so plain values
are read here and never handed to either as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
OVERRIDE = re.compile(r"(?P<sign>\+\+|\+|~)?(?P<key>\w[\w-]*(?:\.\w[\w-]*)*)(?:=(?P<value>.*))?", re.DOTALL)
LONGEST_NUMBER = 400  # characters: beyond it Python itself refuses, or takes long


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


@dataclass(frozen=True)
class Given:
    """A value that somebody set: as it reads, as it was written (on the command line only), and where."""

    value: Any
    text: str | None = None
    where: str = ""
    problem: str = ""

    def shown(self) -> str:
        """Return the value for a message, cut short."""
        text = self.text if self.text is not None else repr(self.value)
        return text if len(text) <= 80 else text[:77] + "..."


@dataclass(frozen=True)
class Override:
    """One `key=value` of a command line; `sign` is what stood before it: "", "+", "++" or "~"."""

    sign: str
    path: tuple[str, ...]
    given: Given

    @property
    def key(self) -> str:
        """The key as it was written."""
        return ".".join(self.path)


def parse_override(text: str) -> Override:
    """Return one override. Raises ConfigError if it is not of the form key=value."""
    if not isinstance(text, str) or "\0" in text:
        raise ConfigError(f"override {text!r:.80}: expected text of the form key=value")
    found = OVERRIDE.fullmatch(text)
    if found is None:
        raise ConfigError(f"override {text!r:.80} is not of the form key=value (a key is words joined by dots)")
    sign, key, value = found["sign"] or "", found["key"], found["value"]
    if value is None and sign != "~":
        raise ConfigError(f"override {text!r:.80} has no value: write {key}=VALUE")
    return Override(sign, tuple(key.split(".")), parse_value(value or ""))


def parse_value(text: str) -> Given:
    """Return a value of the command line: a number, true, false, null, a [list], a {mapping} or a text."""
    plain = text.strip()
    if plain[:1] in ("[", "{", '"', "'"):
        try:
            return Given(read_yaml(plain), text)
        except ConfigError as error:
            return Given(text, text, problem=str(error))
    if not plain or len(plain) > LONGEST_NUMBER:
        return Given(text, text)
    for tag, pattern, _ in RESOLVERS:
        if pattern.fullmatch(plain):
            return Given(READERS[tag.rpartition(":")[2]](plain), text)
    return Given(text, text)


READERS: dict[str, Callable[[str], Any]] = {
    "bool": lambda text: text.lower() == "true",
    "null": lambda _: None,
    "int": int,
    "float": lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
}


def read_yaml(text: str) -> Any:
    """Return what a YAML text holds. Raises ConfigError with the place of a fault."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise ConfigError(f"{place}{getattr(error, 'problem', None) or type(error).__name__}") from error


def to_yaml(tree: Mapping[str, Any]) -> str:
    """Return a tree of plain values as YAML that reads back equal."""
    return str(
        yaml.dump(dict(tree), Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=120)
    )


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
