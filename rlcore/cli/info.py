"""`rlcore info NAME`: shows a component, kind, column, setting or option: what it reads, its options, its source."""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from rlcore.columns import Column
from rlcore.errors import RLCoreError, UnknownNameError, nearest
from rlcore.inspect.descriptions import class_lines, contract_of, declared_classes, records_of, value_text, with_article

CITATION = re.compile(r"\(([^()]*\b(?:19|20)\d\d\b[^()]*)\)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "name",
        nargs="?",
        help="a registered name, a kind, a column, a setting, an option (clip_high, loss.clip_high), a protocol or "
        "record (RewardManager, Sample), distribution:name, or path/to/file.py:function; without one, an overview",
    )
    parser.add_argument("--kind", help="the kind of component, where one name has several")


def run(args: argparse.Namespace) -> int:
    """Print everything of that name: a setting, a kind, a column, components, options."""
    if args.name is None:
        _show_overview()
        return 0
    blocks = [block for block in _answers(args.name, args.kind) if block]
    if not blocks:
        raise _unknown_name(args.name, args.kind)
    print("\n\n".join("\n".join(block) for block in blocks))
    return 0


def _answers(name: str, kind: str | None) -> Iterator[list[str]]:
    """Yield the lines on each thing of a name. A setting comes alone, as most settings have an option's name too."""
    from rlcore.kinds import KINDS
    from rlcore.registry import registry

    if kind in (None, "setting") and (lines := _of_setting(name)):
        yield lines
        if kind is None and name in KINDS:
            yield _of_kind(name)
        return
    columns = registry().columns
    if kind is None:
        yield _of_kind(name)
        if name in (declared := declared_classes()):
            yield class_lines(declared[name])
            yield from (class_lines(record) for record in records_of([declared[name]], declared))
    if kind in (None, "column") and name in columns:
        yield _of_column(columns[name])
    if kind not in ("setting", "column"):
        components = list(_components(name, kind))
        yield from ([*_of_component(name, *component)] for component in components)
        if kind is None and not components and name not in columns and name not in declared:
            yield _of_option(name)


def _components(name: str, kind: str | None) -> Iterator[tuple[str, Any, str]]:
    """Yield kind, thing and owner of each component of a name."""
    from rlcore.kinds import KINDS
    from rlcore.registry import load_file, registry

    if ".py:" in name:
        yield kind or "file", load_file(name), "this file"
        return
    known = registry()
    for kind_name in [kind] if kind else KINDS:
        for entry in known.entries(kind_name):
            if name in (entry.name, f"{entry.distribution}:{entry.name}"):
                file = entry.kind == "experiment"
                thing = entry.thing if file else known.get(entry.kind, f"{entry.distribution}:{entry.name}")
                yield entry.kind, thing, f"{entry.distribution} {entry.version}"


def _unknown_name(name: str, kind: str | None) -> UnknownNameError:
    """Return the error for a name that nothing has, with at most five names near it."""
    from rlcore.config.keys import setting_keys
    from rlcore.kinds import GROUPS, KINDS
    from rlcore.registry import registry

    known = registry()
    words = {e.name for e in known.entries(kind)}
    if kind is None:
        words |= {
            *declared_classes(),
            *known.columns,
            *setting_keys(),
            *KINDS,
            *GROUPS,
            *(option for option, *_ in _options()),
        }
    hint = nearest(name, sorted(words))
    close = difflib.get_close_matches(name, sorted(words), n=5, cutoff=0.6) if hint else []
    near = f"{hint} Near it: {', '.join(close)}." if close else hint
    broken = "".join(f" Plugin {p.name} ({p.distribution}) is out: {p.reason}." for p in known.plugins if p.reason)
    return UnknownNameError(
        f"nothing is registered under {name!r}, and it is no kind, setting, option, column or "
        f"protocol.{near}{broken} "
        f"`rlcore info` lists what there is"
    )


def _show_overview() -> None:
    """Print every kind with its names, and every setting with its default."""
    from rlcore.config.keys import setting_keys
    from rlcore.kinds import KINDS
    from rlcore.registry import names

    print("kinds of components and services (rlcore info NAME says more of each, and of each name):")
    for kind in KINDS.values():
        if known := names(kind.name):
            listed = textwrap.fill(", ".join(known), 110, initial_indent="    ", subsequent_indent="    ")
            keys = ", ".join(f"{group.key}=" for group in kind.groups)
            print(f"  {kind.name}: {kind.meaning}{f'; chosen by {keys}' if keys else ''}\n{listed}")
    print("\nsettings:")
    for key in setting_keys():
        print(f"  {(_of_setting(key) or [''])[0].removeprefix('setting ')}")


def _of_kind(name: str) -> list[str]:
    """Return what a kind or configuration group is for, and what may be chosen there."""
    from rlcore.kinds import GROUPS, KINDS
    from rlcore.registry import names
    from rlcore.services import kind_protocol

    kind = GROUPS[name][0] if name in GROUPS else KINDS.get(name)
    if kind is None:
        return []
    lines = [f"kind {kind.name}: {kind.meaning}"]
    for group in kind.groups:
        remarks = [
            word
            for word, holds in (("null switches it off", group.optional), ("several: a [list]", group.many))
            if holds
        ]
        default = group.default if group.default is None or isinstance(group.default, str) else ", ".join(group.default)
        source = "the algorithm's own" if group.slot else default or "must be chosen"
        lines.append(f"  chosen by {group.key}=NAME; default: {source}" + "".join(f"; {word}" for word in remarks))
    contract = contract_of(kind.name)
    lines.append(f"  to write one: {contract}")
    listed = ", ".join(names(kind.name)) or "none"
    lines += textwrap.wrap(f"names: {listed}", 110, initial_indent="  ", subsequent_indent="    ")
    declared = declared_classes()
    protocol = kind_protocol(kind.name)
    classes = [c for word, c in declared.items() if c is protocol or word in re.findall(r"\w+", contract)]
    for each in (*classes, *records_of(classes, declared)):
        lines += ["", *(f"  {line}".rstrip() for line in class_lines(each))]
    return lines


def _options() -> Iterator[tuple[str, str, str, Any]]:
    """Yield every option of everything that a configuration group may hold: its name, group, owner's name, itself."""
    from rlcore.component import options
    from rlcore.config.specs import configuration_groups
    from rlcore.registry import get, names

    for key, (kind, _) in configuration_groups().items():
        for name in names(kind.name):
            try:
                known = options(get(kind.name, name))
            except (RLCoreError, ImportError, ValueError, TypeError):
                continue  # `rlcore info` of its own name shows what is wrong
            for option in known.values():
                yield option.name, key, name, option


def _of_option(word: str) -> list[str]:
    """Return the components that have an option, `clip_high` or `loss.clip_high`, and what it is there."""
    group, _, name = word.rpartition(".")
    lines = []
    for option, key, owner, known_option in _options():
        if option == name and group in ("", key, owner, f"{key}.{owner}"):
            lines.append(f"option {key}.{option} of {owner}{_described(known_option)}")
    if group in ("", "algorithm"):
        from rlcore.algorithm import Algorithm
        from rlcore.coercion import described
        from rlcore.config.bind import number_fields

        if (kind := number_fields(Algorithm).get(name)) is not None:
            default = value_text(getattr(Algorithm, name, None))
            lines.insert(0, f"option algorithm.{name} of every algorithm = {default}   ({described(kind)})")
    return lines


def _of_column(column: Column) -> list[str]:
    dims = " ".join(column.dims) or "one value"
    marks = [("rewritable", column.rewritable), ("made from the weights of the moment", column.current)]
    return [
        f"column {column.name}   [{dims}] {column.dtype}" + (f", {column.unit}" if column.unit else ""),
        f"  {column.meaning}",
        f"  written by: {column.writer}" + "".join(f"; {mark}" for mark, holds in marks if holds),
    ]


def _of_setting(key: str) -> list[str]:
    """Return a setting's default, type and meaning, or those of a whole section; nothing for no setting."""
    from pydantic_core import PydanticUndefined

    from rlcore.coercion import described
    from rlcore.config.keys import setting_field, setting_keys
    from rlcore.kinds import GROUPS
    from rlcore.settings import sections

    if key in sections() and key not in GROUPS:
        inside = [line for name in setting_keys() if name.startswith(f"{key}.") for line in _of_setting(name)]
        return [f"section {key}: {inspect.getdoc(sections()[key])}", *(f"  {line}" for line in inside)]
    field = setting_field(key)
    if field is None:
        return []
    default = field.get_default(call_default_factory=True)
    text_of_default = (
        "must be set"
        if default is PydanticUndefined
        else value_text(list(default) if isinstance(default, tuple) else default)
    )
    lines = textwrap.indent(field.description or "", "  ").splitlines()
    return [f"setting {key} = {text_of_default}   ({described(field.annotation)})", *lines]


def _of_component(name: str, kind: str, thing: Any, owner: str) -> Iterator[str]:
    from rlcore.component import reads, source_of
    from rlcore.kinds import KINDS

    yield f"{kind.replace('_', ' ')} {name}   from {owner}"
    if kind in KINDS:
        chosen = ", ".join(f"{group.key}={name}" for group in KINDS[kind].groups)
        yield f"  {with_article(kind.replace('_', ' '))} {KINDS[kind].meaning}" + (
            f"; chosen by {chosen}" if chosen else ""
        )
    if isinstance(thing, str):
        yield f"  {thing}"
        return
    source = source_of(thing)
    try:
        yield f"  source: {inspect.getsourcefile(source)}:{inspect.getsourcelines(source)[1]}"
    except (OSError, TypeError):
        yield f"  source: {source.__module__}"
    is_component = kind in KINDS and KINDS[kind].form == "component"
    if is_component and (paper := paper_of(source)):
        yield f"  paper: {paper}"
    try:
        of_columns = is_component or kind == "file"
        columns = [r.name + (" (if there)" if r.optional else "") for r in reads(thing)] if of_columns else []
        if columns:
            yield f"  reads: {', '.join(columns)}"
        yield from _of_options(thing)
    except (RLCoreError, ValueError, TypeError, NameError) as error:
        yield f"  its signature cannot be read: {error}"
    # An algorithm's paper, formula and differences are in the docstring of its module.
    further = [inspect.getmodule(source)] if kind == "algorithm" else []
    for text in filter(None, map(inspect.getdoc, (source, *further))):
        yield "\n" + "\n".join(f"  {row}".rstrip() for row in text.splitlines())


def paper_of(source: Any) -> str:
    """Return the citation in the docstring of a component's module: the paper that its "equation 7" refers to."""
    head = (inspect.getdoc(inspect.getmodule(source)) or "").partition("\n\n")[0]
    citation = CITATION.search(" ".join(head.split()))
    return citation[1] if citation else ""


def _of_options(thing: Any) -> Iterator[str]:
    from rlcore.component import options

    for option in options(thing).values():
        yield f"  option {option.name}{_described(option)}"


def _described(option: Any) -> str:
    """Return an option's default, its type, and with which other options it has an effect."""
    from rlcore.coercion import described
    from rlcore.component import name_of

    value = option.default
    kind = f"a {option.kind}" if option.kind else described(option.annotation)
    default = (
        "must be set" if value is inspect.Parameter.empty else name_of(value) if callable(value) else value_text(value)
    )
    only = f"; counts where {option.only_with}" if option.only_with else ""
    return f" = {default}   ({kind}{only})"
