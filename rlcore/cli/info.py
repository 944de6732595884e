"""`rlcore info NAME`: what a part reads, its options, its text, where it comes from."""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from rlcore.columns import Column
from rlcore.errors import RLCoreError, UnknownNameError, nearest

CITATION = re.compile(r"\(([^()]*\b(?:19|20)\d\d\b[^()]*)\)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "name", help="a registered name, a column, a setting, distribution:name, or path/to/file.py:function"
    )
    parser.add_argument("--kind", help="the kind of part, where one name has several")


def run(args: argparse.Namespace) -> int:
    """Print the column of that name, and every part."""
    from rlcore.registry import registry

    if args.kind in (None, "setting") and _show_setting(args.name):
        return 0
    columns = registry().columns
    if args.kind in (None, "column") and args.name in columns:
        _show_column(columns[args.name])
        if args.kind or not any(e.name == args.name for e in registry().entries()):
            return 0
        print()
    for i, (kind, thing, owner) in enumerate(_found(args.name, args.kind)):
        if i:
            print()
        _show(args.name, kind, thing, owner)
    return 0


def _found(name: str, kind: str | None) -> Iterator[tuple[str, Any, str]]:
    """Yield kind, thing and owner of each part of a name. Raises UnknownNameError with the nearest one."""
    from rlcore.kinds import KINDS
    from rlcore.registry import registry

    if ".py:" in name:
        yield kind or "file", registry().get("reward", name), "this file"
        return
    known = registry()
    kinds = [kind] if kind else list(KINDS)
    matches = [e for k in kinds for e in known.entries(k) if name in (e.name, f"{e.distribution}:{e.name}")]
    if not matches:
        named = {e.name for k in kinds for e in known.entries(k)}
        everything = sorted(named if kind else named | set(known.columns))
        broken = "".join(f" Plugin {p.name} ({p.distribution}) is out: {p.reason}." for p in known.plugins if p.reason)
        raise UnknownNameError(
            f"nothing is registered under {name!r}.{nearest(name, everything)}{broken} Known: {', '.join(everything)}"
        )
    for entry in matches:
        if entry.kind == "experiment":
            yield entry.kind, entry.thing, f"{entry.distribution} {entry.version}"
        else:
            yield (
                entry.kind,
                known.get(entry.kind, f"{entry.distribution}:{entry.name}"),
                f"{entry.distribution} {entry.version}",
            )


def _show_column(column: Column) -> None:
    dims = " ".join(column.dims) or "one value"
    print(f"column {column.name}   [{dims}] {column.dtype}" + (f", {column.unit}" if column.unit else ""))
    print(f"  {column.meaning}")
    marks = [("rewritable", column.rewritable), ("made from the weights of the moment", column.current)]
    print(f"  written by: {column.writer}" + "".join(f"; {mark}" for mark, holds in marks if holds))


def _show_setting(key: str) -> bool:
    """Print a setting's default, type and meaning; return whether there is one of that key."""
    from pydantic_core import PydanticUndefined

    from rlcore.config.keys import setting_named
    from rlcore.config.values import described

    found = setting_named(key)
    if found is None:
        return False
    field, text = found
    default = field.get_default(call_default_factory=True)
    shown = (
        "must be set"
        if default is PydanticUndefined
        else written(list(default) if isinstance(default, tuple) else default)
    )
    print(f"setting {key} = {shown}   ({described(field.annotation)})")
    if text:
        print(textwrap.indent(text, "  "))
    return True


def _show(name: str, kind: str, thing: Any, owner: str) -> None:
    from rlcore.component import reads, source_of
    from rlcore.kinds import KINDS

    print(f"{kind.replace('_', ' ')} {name}   from {owner}")
    if kind in KINDS:
        chosen = ", ".join(f"{group.key}={name}" for group in KINDS[kind].groups)
        print(f"  a {kind.replace('_', ' ')} {KINDS[kind].meaning}" + (f"; chosen by {chosen}" if chosen else ""))
    if isinstance(thing, str):
        print(f"  {thing}")
        return
    source = source_of(thing)
    try:
        file = inspect.getsourcefile(source)
        line = inspect.getsourcelines(source)[1]
        print(f"  source: {file}:{line}")
    except (OSError, TypeError):
        print(f"  source: {source.__module__}")
    is_component = kind in KINDS and KINDS[kind].form == "component"
    if is_component and (paper := paper_of(source)):
        print(f"  paper: {paper}")
    try:
        of_columns = is_component or kind == "file"
        columns = [r.name + (" (if there)" if r.optional else "") for r in reads(thing)] if of_columns else []
        if columns:
            print(f"  reads: {', '.join(columns)}")
        _show_options(thing)
    except (RLCoreError, ValueError, TypeError, NameError) as error:
        print(f"  its signature cannot be read: {error}")
    # A factory's own text is a line; paper, formula and what differs stand at the head of its file.
    further = [inspect.getmodule(source)] if kind == "algorithm" else []
    for text in filter(None, map(inspect.getdoc, (source, *further))):
        print("\n" + "\n".join(f"  {row}".rstrip() for row in text.splitlines()))


def paper_of(source: Any) -> str:
    """Return the citation at the head of the file that a part stands in: what "equation 7" is an equation of."""
    head = (inspect.getdoc(inspect.getmodule(source)) or "").partition("\n\n")[0]
    found = CITATION.search(" ".join(head.split()))
    return found[1] if found else ""


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


def _show_options(thing: Any) -> None:
    from rlcore.component import name_of, options
    from rlcore.config.values import described

    for option in options(thing).values():
        kind = f"a {option.kind}" if option.kind else described(option.annotation)
        value = option.default
        shown = (
            "must be set" if value is inspect.Parameter.empty else name_of(value) if callable(value) else written(value)
        )
        only = f"; counts where {option.only_with}" if option.only_with else ""
        print(f"  option {option.name} = {shown}   ({kind}{only})")


def written(value: Any) -> str:
    """Return a value as a configuration writes it."""
    return (
        "null"
        if value is None
        else str(value).lower()
        if isinstance(value, bool)
        else repr(value)
        if isinstance(value, str)
        else str(value)
    )
