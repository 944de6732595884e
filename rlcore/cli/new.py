"""`rlcore new plugin NAME --kind KIND`: write a package of your own, whole, whose tests pass at once."""

from __future__ import annotations

import argparse
import importlib.resources
import importlib.util
import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import NamedTuple

from rlcore.errors import ConfigError, counted, unknown
from rlcore.kinds import KINDS

NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
MARK = ">>> "
"""Begins the line of a template that names a file; all up to the next such line is its text."""


class PluginNames(NamedTuple):
    """What a new package and what is in it are called.

    distribution: what pip installs, and the folder. package: what Python imports. name: what a command line chooses.
    """

    distribution: str
    package: str
    name: str

    @property
    def class_name(self) -> str:
        """The name as a class has it: `length_bonus` is `LengthBonus`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("what", choices=["plugin"], help="a package that adds to rlcore from outside")
    parser.add_argument(
        "name", help="what pip will call it, such as rlcore-brief; it is written to a folder of that name"
    )
    parser.add_argument("--kind", required=True, metavar="KIND", help=f"what it adds: {', '.join(KINDS)}")


def run(args: argparse.Namespace) -> int:
    """Write the package into the working directory, and print what to type next."""
    names = names_of(args.name, args.kind)
    written = write_plugin(names, args.kind, Path.cwd())
    print(f"wrote {counted(len(written), 'file')}:")
    for path in written:
        print(f"  {path.relative_to(Path.cwd())}")
    print(
        f'next:\n  cd {names.distribution}\n  pip install -e ".[test]" && pytest\n  {_words(names, args.kind)["use"]}'
    )
    return 0


def names_of(wanted: str, kind: str) -> PluginNames:
    """Return the names of a new package. Raises ConfigError or UnknownNameError, with what to type in their place."""
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    package = wanted.replace("-", "_")
    name = package.removeprefix("rlcore_")
    again = f"rlcore new plugin {_suggestion(wanted)} --kind {kind}"
    if not NAME.fullmatch(wanted):
        raise ConfigError(
            f"{wanted!r} cannot be the name of a package: use small letters, digits and hyphens, a letter first. "
            f"Type: {again}"
        )
    if keyword.iskeyword(name) or keyword.iskeyword(package):
        raise ConfigError(f"{wanted!r} is a word of the Python language. Type: {again}")
    if package in sys.stdlib_module_names or package.startswith("test") or importlib.util.find_spec(package):
        raise ConfigError(
            f"a module {package!r} can be imported already, and yours would stand in its way. Type: {again}"
        )
    _check_free(kind, name, again)
    return PluginNames(wanted.replace("_", "-"), package, name)


def _suggestion(wanted: str) -> str:
    """Return a name of a package that is near what was wanted, and good."""
    words = [word for word in re.split(r"[^a-z0-9]+", wanted.lower()) if word]
    words = [word for word in words if word != "rlcore"] or ["package"]
    return "-".join(["rlcore", "my", *words] if len(words) == 1 else ["rlcore", *words])


def _check_free(kind: str, name: str, again: str) -> None:
    """Raise ConfigError for a name that the kind has already: two owners of one name would refuse each other."""
    from rlcore.registry import names

    if name in names(kind):
        raise ConfigError(f"there is already {_with_article(kind.replace('_', ' '))} called {name!r}. Type: {again}")


def _with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeio" else f"a {noun}"


def write_plugin(names: PluginNames, kind: str, parent: Path) -> list[Path]:
    """Write the files of a new package into `parent`/DISTRIBUTION; return their paths.

    Raises ConfigError where there is something of that name.
    """
    folder = parent / names.distribution
    if folder.exists():
        raise ConfigError(f"{str(folder)!r} is there already. Choose another name, or remove it")
    words = _words(names, kind)
    written = []
    for place, text in [*_files(_text("package")), *_files(_text(kind))]:
        path = folder / Template(place).substitute(words)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text).substitute(words), encoding="utf-8")
        written.append(path)
    return written


def _words(names: PluginNames, kind: str) -> dict[str, str]:
    """Return what stands for each `$word` of a template."""
    words = {**names._asdict(), "Class": names.class_name, "kind": kind, "meaning": KINDS[kind].meaning}
    use = _text(kind).partition("\n")[0].removeprefix("use: ")
    return {**words, "use": Template(use).substitute(words)}


def _files(template: str) -> Iterator[tuple[str, str]]:
    """Give the path and the text of each file of a template."""
    for piece in re.split(rf"^{MARK}", template, flags=re.MULTILINE)[1:]:
        place, _, text = piece.partition("\n")
        yield place, text


def _text(name: str) -> str:
    return importlib.resources.files("rlcore.cli").joinpath("templates", f"{name}.txt").read_text(encoding="utf-8")
