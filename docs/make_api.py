"""Writes docs/api.md and tests/contract/public_api.txt, the public API of rlcore: `python docs/make_api.py`.

api.md lists every name with its sentence. public_api.txt pins every signature: a line each, so that a change shows as a
difference that people can read. What stands in neither may change at any time.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE, PINNED = ROOT / "docs/api.md", ROOT / "tests/contract/public_api.txt"
SECTIONS = {
    "To run": ("rlcore", "rlcore.config"),
    "To write components": ("rlcore.math",),
    "To write a plugin": ("rlcore.hooks", "rlcore.protocols", "rlcore.columns", "rlcore.kinds"),
    "To test what you wrote": ("rlcore.testing",),
    "To build a loop of your own": (
        "rlcore.data",
        "rlcore.sample.embedded",
        "rlcore.train.model",
        "rlcore.train.trainer",
    ),
    "Errors": ("rlcore.errors",),
    "Algorithms and their components": (
        "rlcore_algorithms",
        *(f"rlcore_algorithms.{name}" for name in ("advantages", "losses", "reductions", "kls", "corrections")),
        *(f"rlcore_algorithms.{name}" for name in ("selects", "filters", "shaping", "controllers")),
    ),
    "Rewards": ("rlcore_rewards",),
    "Data sets": ("rlcore_envs.datasets",),
}
CONSTANTS = {
    "COLUMNS": "The table of rlcore's own columns.",
    "hookimpl": "Marks a function of a plugin as a hook: `register` and those that watch a run.",
    "KINDS": "Every kind by name.",
    "GROUPS": "Every configuration group by its key, with the kind that is chosen there.",
}
"""Sentences for constants, which can have no docstring."""
WIDTH = 120
OWN = ("rlcore", "rlcore_algorithms", "rlcore_rewards", "rlcore_envs", "rlcore_answers", "rlcore_sandbox")
HEAD = """# The public API

What you may import and rely on. Before version 1.0 it may change in a minor version, and CHANGELOG.md says so. What is
not listed here is rlcore's own affair, and may change at any time. Written by `python docs/make_api.py`; a test pins
every signature.
"""


def public_names(module: ModuleType) -> list[str]:
    """Return the public names of a module: its `__all__`, what a package passes on, or what a file defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(name for name in listed if _is_described(name, getattr(module, name)))
    package = hasattr(module, "__path__")
    return sorted(name for name, thing in vars(module).items() if _is_public(module.__name__, name, thing, package))


def _is_public(module: str, name: str, thing: Any, package: bool) -> bool:
    if name.startswith("_") or isinstance(thing, ModuleType) or name == "register":
        return False
    home = getattr(thing, "__module__", None) or ""
    home = getattr(getattr(thing, "func", None), "__module__", home)
    if name in CONSTANTS:
        return not package
    return _is_described(name, thing) and (home.partition(".")[0] in OWN if package else home == module)


def _is_described(name: str, thing: Any) -> bool:
    """Return whether a thing has a docstring of its own: a class, a function or a bound one, but no alias of a type."""
    return inspect.isclass(thing) or inspect.isroutine(thing) or hasattr(thing, "func") or name in CONSTANTS


def pinned_lines(name: str, thing: Any) -> Iterator[str]:
    """Yield the lines that pin one thing: its signature; of a class also its fields and methods."""
    if inspect.isclass(thing):
        yield from _lines_of_class(name, thing)
    elif callable(thing):
        yield from _signature(name, thing)
    else:
        yield f"{name}: {type(thing).__name__}"


def _lines_of_class(name: str, thing: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
    yield f"class {name}({bases})" if bases else f"class {name}"
    if issubclass(thing, enum.Enum):
        yield from (f"{name}.{member.name} = {member.value!r}" for member in thing)
        return
    if issubclass(thing, BaseException):
        return
    fields = [f.name for f in dataclasses.fields(thing)] if dataclasses.is_dataclass(thing) else ()
    own = vars(thing)
    if "__init__" in own and not getattr(thing, "_is_protocol", False):
        yield from _signature(name, thing)
    elif hasattr(thing, "_fields"):
        yield f"{name}({', '.join(thing._fields)})"
    for attribute in sorted(set(own.get("__annotations__", {})) - set(fields)):
        if not attribute.startswith("_") and not hasattr(thing, "_fields"):
            yield f"{name}.{attribute}: {own['__annotations__'][attribute]}"
    for attribute, value in sorted(own.items()):
        if attribute.startswith("_") or attribute in fields:
            continue
        inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if inspect.isfunction(inner):
            yield from _signature(f"{name}.{attribute}", inner)
        elif isinstance(value, property):
            yield f"{name}.{attribute} (property)"


def _signature(name: str, thing: Any) -> Iterator[str]:
    """Yield a signature as one line, or with a line for each parameter where one would be too long."""
    try:
        signature = inspect.signature(thing)
    except ValueError:
        yield f"{name}(...)"
        return
    line = name + _plain(str(signature))
    if len(line) <= WIDTH:
        yield line
        return
    returned = signature.return_annotation
    yield f"{name}(...)" + ("" if returned is signature.empty else f" -> {_plain(str(returned))}")
    keyword_only = False
    for parameter in signature.parameters.values():
        keyword_only |= parameter.kind is parameter.KEYWORD_ONLY
        yield f"{name}({'*, ' if keyword_only else ''}{_plain(str(parameter))})"


def _plain(text: str) -> str:
    """Return a signature's text without quotes around annotations and without addresses of defaults."""
    text = re.sub(r"<function ([\w.<>]+) at 0x[0-9a-f]+>", r"\1", text)
    text = re.sub(r"<([\w.]+) object at 0x[0-9a-f]+>", r"\1", text).replace("<factory>", "...")
    return re.sub(r"(: |-> )'((?:[^'\\]|\\.)*)'", r"\1\2", text)


def pinned() -> str:
    """Return the text of public_api.txt."""
    parts = []
    for modules in SECTIONS.values():
        for name in modules:
            module = importlib.import_module(name)
            lines = [line for n in public_names(module) for line in pinned_lines(n, getattr(module, n))]
            parts.append("\n".join([f"# {name}", *lines]) + "\n")
    return "\n".join(parts)


def page() -> str:
    """Return the text of api.md."""
    text = [HEAD]
    for title, modules in SECTIONS.items():
        text.append(f"## {title}\n")
        for name in modules:
            module = importlib.import_module(name)
            text += [f"### `{name}`\n", f"{_sentence(module)}\n", "| name | what it is |", "|---|---|"]
            for public in public_names(module):
                sentence = CONSTANTS.get(public) or _sentence(getattr(module, public))
                text.append(f"| `{public}` | {sentence} |")
            text.append("")
    return "\n".join(text)


def _sentence(thing: Any) -> str:
    """Return the first sentence of a docstring, on one line."""
    while hasattr(thing, "func") and not inspect.isclass(thing):
        thing = thing.func
    described = inspect.isclass(thing) or inspect.isroutine(thing) or isinstance(thing, ModuleType)
    paragraph = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split()) if described else ""
    return re.split(r"(?<=\.)\s", paragraph)[0].replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    PINNED.write_text(pinned(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)} and {PINNED.relative_to(ROOT)}", file=sys.stderr)
