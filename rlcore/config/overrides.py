"""One `key=value` of a command line: read by Hydra's grammar, and what that refuses is a text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcore.config.yaml_files import escaped
from rlcore.errors import ConfigError
from rlcore.kinds import GROUPS
from rlcore.settings import ALONE

FORM = re.compile(r"(?P<sign>\+\+|\+|~)?(?P<key>\w[\w./@-]*)(?:=(?P<value>.*))?", re.DOTALL)


@dataclass(frozen=True)
class Override:
    """One `key=value`; `sign` is what stood before it: "", "+", "++" or "~".

    Attributes:
        value: the value, or the text itself where Hydra's grammar does not read it.
        text: the value as it was written.
        problem: why the value is a text alone, with what to type instead; "" for a value.
        sweep: the value stands for several: `1,2`, `range(1,3)`, `choice(...)`, `glob(...)`, `interval(...)`.
        elements: the values that it lists, where it does.
    """

    sign: str
    key: str
    value: Any
    text: str
    problem: str = ""
    sweep: bool = False
    elements: tuple[Any, ...] = ()

    def shown(self) -> str:
        """Return the value as it was written, cut short for a message."""
        return self.text if len(self.text) <= 80 else self.text[:77] + "..."


def parse_override(text: str) -> Override:
    """Return one override. Raises ConfigError if it is not of the form key=value."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import ChoiceSweep, Sweep
    from hydra.errors import HydraException

    from rlcore.config.hydra_state import own_version

    if not isinstance(text, str) or "\0" in text:
        raise ConfigError(f"override {text!r:.80}: expected text of the form key=value")
    found = FORM.fullmatch(text)
    if found is None or not all(found["key"].split(".")):
        raise ConfigError(f"override {text!r:.80} is not of the form key=value (a key is words joined by dots)")
    sign, key, text = found["sign"] or "", found["key"], found["value"] or ""
    if found["value"] is None and sign != "~":
        raise ConfigError(f"override {found[0]!r:.80} has no value: write {key}=VALUE")
    if not text.strip():
        return Override(sign, key, text, text)
    try:
        with own_version():
            value = OverridesParser.create().parse_override(f"key={text}").value()
    except (HydraException, ValueError, RecursionError, OverflowError):
        return Override(sign, key, text, text, refused(key, text))
    if isinstance(value, Sweep):
        elements = tuple(map(_plain, value.list)) if isinstance(value, ChoiceSweep) else ()
        return Override(sign, key, text, text, several(key, text), sweep=True, elements=elements)
    return Override(sign, key, value, text)


def parse_overrides(words: Iterable[str]) -> list[Override]:
    """Return the overrides of a command line; of one key the last counts. Raises ConfigError."""
    return list({canonical(override.key): override for override in map(parse_override, words)}.values())


def canonical(key: str) -> str:
    """Return the key of an override as it is judged: `loss.name` is `loss`, `model` is `model.source`."""
    group = key.removesuffix(".name")
    return group if group in GROUPS else f"{key}.{ALONE[key]}" if key in ALONE else key


def _plain(value: Any) -> Any:
    """Return an element of a sweep without its quotes."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {_plain(key): _plain(one) for key, one in value.items()}
    return value.text if hasattr(value, "with_quotes") else value


def refused(key: str, text: str) -> str:
    """Return what to say of a value that Hydra's grammar does not read, where no text is asked for."""
    plain = text.strip()
    if plain[0] in "[{" and plain[-1] != {"[": "]", "{": "}"}[plain[0]]:
        return f"cannot be read: the {'list' if plain[0] == '[' else 'mapping'} is not closed"
    if len(plain) > 200:
        return "cannot be read as a value"
    if plain[0] == "[":
        quoted = "[" + ", ".join(_double_quoted(one.strip()) for one in plain[1:-1].split(",")) + "]"
    else:
        quoted = _double_quoted(plain)
    return f"cannot be read as a value; if it is text, type {shlex.quote(f'{key}={quoted}')}"


def several(key: str, text: str) -> str:
    """Return what to say of a value that is a sweep where nothing is swept."""
    short = text.strip() if len(text) <= 60 else "a,b"
    return (
        f"a comma between values is a sweep. Several runs, one for each: add -m. One text: "
        f"{shlex.quote(f'{key}={_double_quoted(short)}')}. A list: {shlex.quote(f'{key}=[{short}]')}"
    )


def _double_quoted(text: str) -> str:
    return text if text[:1] in ("'", '"') else '"' + text.replace('"', '\\"') + '"'


def single_quoted(text: str) -> str:
    """Return a text as Hydra's grammar reads it back equal, and OmegaConf after it."""
    from hydra.core.override_parser.types import Quote, QuotedString

    return QuotedString(escaped(text), Quote.single).with_quotes()


def written_value(value: Any) -> str:
    """Return a value in Hydra's grammar."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{written_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written_value, value)) + "]"
    if isinstance(value, str):
        return single_quoted(value)
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


def put(tree: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Put a value at a path of a tree, in place; a choice beside options becomes `name` among them."""
    for word in path[:-1]:
        inside = tree.get(word, {})
        tree[word] = inside if isinstance(inside, dict) else {"name": inside}
        tree = tree[word]
    before = tree.get(path[-1])
    if isinstance(before, dict) and path[-1] in GROUPS and not isinstance(value, Mapping):
        value = {**before, "name": value}
    tree[path[-1]] = value
