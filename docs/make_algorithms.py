"""Writes docs/algorithms.md from the registry: `python docs/make_algorithms.py`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlcore.component import name_of, options, source_of
from rlcore.registry import Entry, registry

TARGET = Path(__file__).with_name("algorithms.md")
HEAD = """# Algorithms and their parts

Everything that rlcore registers itself, from the registry by `python docs/make_algorithms.py`; a test holds it true.
`rlcore info NAME` shows the formula, the source and what differs; `rlcore diff A B` shows two algorithms side by side.
Any part of an algorithm is replaced by name: `rlcore train algorithm=dapo advantage=leave_one_out`.
"""
PEERS = """## Presets of peers

What a version of another framework does, under its own option names and defaults; shown is what a preset sets. The
numbers of verl and TRL are recorded (see [parity](parity.md)).
"""
PARTS = {
    "advantage": "Estimators of the advantage, and steps of a chain (`advantage=[gae,whiten]`)",
    "loss": "Losses",
    "reduction": "Reductions: what a token's or a row's loss weighs",
    "select": "Selects: once an optimizer update, on the weights of the moment (`selects=[...]`)",
    "kl": "KL estimators, in the loss (`kl=`) or in the reward (`kl_in_reward=`)",
    "correction": "Corrections of the difference between sampler and trainer (`correction=[...]`)",
    "filter": "Filters of prompts and rows",
    "shaping": "Shaping of the reward (`shaping=[...]`)",
    "controller": "Controllers of the KL penalty",
    "readout": "Readouts: what a trainer takes from the logits",
}
PEOPLE = r"[A-Z][\w'-]+(?: team)?(?:,? (?:[A-Z][\w'-]+ )?(?:et al\.|and [A-Z][\w'-]+))?"
PAPER = re.compile(rf"(?:{PEOPLE},? )?\b(?:19|20)\d\d[a-z]?\b(?:[^()]*?(?:arXiv:|doi:)[\w./]*\w)?")


def main() -> None:
    TARGET.write_text(text(), encoding="utf-8")
    print(f"wrote {TARGET}")


def text() -> str:
    """Return the text of algorithms.md."""
    known = [entry for entry in registry().entries("algorithm") if entry.distribution == "rlcore"]
    named = [entry for entry in known if "/" not in entry.name]
    presets = [entry for entry in known if "/" in entry.name]
    sections = [
        HEAD,
        *section("Named algorithms", named),
        PEERS,
        table(("name", "what it stands for", "settings"), (preset_row(entry) for entry in presets)),
    ]
    for kind, title in PARTS.items():
        own = [entry for entry in registry().entries(kind) if entry.distribution == "rlcore"]
        sections += section(title, own)
    return "\n".join(sections)


def section(title: str, entries: list[Entry]) -> tuple[str, str]:
    return f"## {title}\n", table(("name", "paper", "what it computes", "options"), (component_row(e) for e in entries))


def component_row(entry: Entry) -> tuple[str, ...]:
    thing = registry().get(entry.kind, entry.name)
    return (f"`{entry.name}`", paper(thing), summary(thing), settings(thing))


def preset_row(entry: Entry) -> tuple[str, ...]:
    thing = registry().get(entry.kind, entry.name)
    plain = {option.name: option.default for option in options(source_of(thing)).values()}
    bound = {n: o.default for n, o in options(thing).items() if o.default != plain[n]}
    return (
        f"`{entry.name}`",
        summary(thing),
        ", ".join(f"`{n}={default_text(v)}`" for n, v in bound.items()) or "its defaults",
    )


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *sorted(rows)]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


def paper(thing: Any) -> str:
    """Return the first paper that the module, or the function, names."""
    source = source_of(thing)
    module = (inspect.getdoc(inspect.getmodule(source)) or "").partition("\n")[0]
    for where in (module, (inspect.getdoc(source) or "").partition("Source:")[2], inspect.getdoc(source) or ""):
        if found := PAPER.search(" ".join(where.split())):
            return found.group()
    return "-"


def summary(thing: Any) -> str:
    """Return the first sentence of the docstring."""
    first = " ".join((inspect.getdoc(source_of(thing)) or "-").partition("\n\n")[0].split())
    return re.split(r"(?<=[^.]\.) (?=[A-Z`])", first)[0].rstrip(".").replace("*", r"\*")


def settings(thing: Any) -> str:
    return ", ".join(f"`{o.name}={default_text(o.default)}`" for o in options(thing).values()) or "-"


def default_text(value: Any) -> str:
    """Return a default as a configuration writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(default_text, value))}]"
    return name_of(value) if callable(value) else str(value)


if __name__ == "__main__":
    main()
