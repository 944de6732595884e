"""Components in words: formula and summary of a docstring, a value as a configuration has it, what a kind asks for."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any


def formula_of(component: Any) -> str:
    """Return the indented lines of a component's docstring, or of its module's: its formula; empty without any."""
    from rlcore.component import source_of

    source = source_of(component)
    for text in (inspect.getdoc(source), inspect.getdoc(inspect.getmodule(source))):
        rows = [row for row in (text or "").splitlines() if row.startswith("  ")]
        if rows:
            return textwrap.dedent("\n".join(rows))
    return ""


def summary_of(component: Any) -> str:
    """Return the first sentence of a component's docstring."""
    from rlcore.component import source_of

    first = " ".join((inspect.getdoc(source_of(component)) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[^.]\.) (?=[A-Z])", first)[0]


def with_article(noun: str) -> str:
    """Return a noun after `a` or `an`."""
    return f"an {noun}" if noun[0] in "aeio" else f"a {noun}"


def value_text(value: Any) -> str:
    """Return a value as a configuration writes it."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return repr(value) if isinstance(value, str) else str(value)


def contract_of(kind: str) -> str:
    """Return what a kind's components are called with and what they return, as `Add` says it: "rows -> `[B, T]`"."""
    from rlcore.hooks import Add

    return " ".join((inspect.getdoc(getattr(Add, kind)) or "").partition(": ")[2].split()).rstrip(".")


def declared_classes() -> dict[str, type]:
    """Return the protocols that services satisfy, and the records that pass between them and a run, by name."""
    from rlcore import protocols
    from rlcore.kinds import KINDS
    from rlcore.services import kind_protocol

    own = [c for c in vars(protocols).values() if isinstance(c, type) and c.__module__ == protocols.__name__]
    return {c.__name__: c for c in (*own, *filter(None, map(kind_protocol, KINDS)))}


def records_of(classes: Sequence[type], declared: Mapping[str, type]) -> list[type]:
    """Return the records that the fields and methods of some classes name, and those that these name, each once."""
    found = list(classes)
    for each in found:  # it grows while it is read
        texts = [*getattr(each, "__annotations__", {}).values(), *(_signature(method) for _, method in _methods(each))]
        inside = [declared[word] for word in re.findall(r"\w+", " ".join(map(str, texts))) if word in declared]
        found += [c for c in dict.fromkeys(inside) if c not in found and not _is_protocol(c)]
    return found[len(classes) :]


def class_lines(each: type) -> list[str]:
    """Return the fields of a record, or the attributes and methods of a protocol, with what they mean."""
    lines = [f"{'protocol' if _is_protocol(each) else 'record'} {each.__name__}   from {each.__module__}"]
    lines += [f"  {line}".rstrip() for line in (inspect.getdoc(each) or "").splitlines()]
    if issubclass(each, Enum):
        return [*lines, f"  values: {', '.join(f'{member.name} = {member.value}' for member in each)}"]
    for name, annotation in getattr(each, "__annotations__", {}).items():
        default = vars(each).get(name, inspect.Parameter.empty)
        plain = default is None or isinstance(default, bool | int | float | str | tuple)
        written = getattr(annotation, "__forward_arg__", annotation)
        lines.append(f"  {name}: {written}" + (f" = {default!r}" if plain else ""))
    # A protocol that answers some of its methods itself marks the others as abstract.
    needed = getattr(each, "__abstractmethods__", ()) or dict(_methods(each))
    for name, method in _methods(each):
        kind = "async " if inspect.iscoroutinefunction(method) else ""
        lines.append(f"  {kind}{name}{_signature(method)}" + ("   (must be written)" if name in needed else ""))
        lines += textwrap.indent(inspect.getdoc(method) or "", "      ").splitlines()
    return lines


def _is_protocol(each: type) -> bool:
    return bool(getattr(each, "_is_protocol", False))


def _methods(each: type) -> list[tuple[str, Any]]:
    """Return the public methods that a class itself defines."""
    return [(name, m) for name, m in vars(each).items() if inspect.isfunction(m) and not name.startswith("_")]


def _signature(method: Any) -> str:
    """Return a method's parameters and result, with annotations as they were written."""
    return str(inspect.signature(method)).replace("'", "")
