"""`rlcore new plugin NAME --kind KIND`: write a package of your own, whole, whose tests pass at once.

A package of one kind is one module. One of several kinds (`--kind loss --kind reward`) has a subpackage for each, and a
`register` that registers them all.
"""

from __future__ import annotations

import argparse
import importlib.resources
import importlib.util
import keyword
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template
from typing import NamedTuple

from rlcore.errors import ConfigError, counted, unknown
from rlcore.inspect.descriptions import with_article
from rlcore.kinds import KINDS

NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
MARK = ">>> "
"""Begins the line of a template that names a file; all up to the next such line is its text."""
SEVERAL = f'''
{MARK}$package/__init__.py
"""A package for rlcore. Each kind has a subpackage of its own: $kinds."""

from rlcore import hookimpl
from rlcore.hooks import Add
from $package import $kinds


@hookimpl
def register(add: Add) -> None:
    """Register what each subpackage registers."""
    for each in ($kinds):
        each.register(add)
'''
"""What a package of several kinds has beside the modules of each."""


class PluginNames(NamedTuple):
    """The names of a new package.

    distribution: what pip installs, and the folder. package: what Python imports, which holds the components (in a
    package of several kinds the subpackage of one of them). name: what a command line chooses.
    """

    distribution: str
    package: str
    name: str

    @property
    def class_name(self) -> str:
        """Return the name in the form of a class name: `length_bonus` is `LengthBonus`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("what", choices=["plugin"], help="a package that adds to rlcore from outside")
    parser.add_argument(
        "name", help="what pip will call it, such as rlcore-brief; it is written to a folder of that name"
    )
    parser.add_argument(
        "--kind",
        required=True,
        action="append",
        metavar="KIND",
        help=f"what it adds, once for each kind or with commas between: {', '.join(KINDS)}",
    )
    parser.epilog = (
        f"for example: rlcore new plugin rlcore-mine --kind advantage --kind loss --kind reward. {parser.epilog or ''}"
    )


def run(args: argparse.Namespace) -> int:
    """Write the package into the working directory, and print what to type next."""
    kinds = list(dict.fromkeys(kind for word in args.kind for kind in word.split(",")))
    names = names_of(args.name, *kinds)
    written = write_plugin(names, kinds, Path.cwd())
    if names.distribution != args.name:
        print(f"pip and the folder call it {names.distribution}: the names of distributions have hyphens")
    print(f"wrote {counted(len(written), 'file')}:")
    for path in written:
        print(f"  {path.relative_to(Path.cwd())}")
    print(f'next:\n  cd {names.distribution}\n  pip install -e ".[test]" && pytest')
    for use in _words(names, kinds)["use"].splitlines():
        print(f"  {use}")
    return 0


def names_of(wanted: str, *kinds: str) -> PluginNames:
    """Return the names of a new package. Raises ConfigError or UnknownNameError, with what to type in their place."""
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("kind", kind, KINDS)
    package = wanted.replace("-", "_")
    name = package.removeprefix("rlcore_")
    again = " ".join([f"rlcore new plugin {_suggestion(wanted)}", *(f"--kind {kind}" for kind in kinds)])
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
    for kind in kinds:
        _check_free(kind, name, again)
    if {"sampler", "weight_transfer"} <= set(kinds):
        again = again.replace(" --kind weight_transfer", "")
        raise ConfigError(
            f"a package with a sampler has its weight transfer already, under the same name. Type: {again}"
        )
    return PluginNames(wanted.replace("_", "-"), package, name)


def _suggestion(wanted: str) -> str:
    """Return an allowed package name that is close to the wanted one."""
    words = [word for word in re.split(r"[^a-z0-9]+", wanted.lower()) if word]
    words = [word for word in words if word != "rlcore"] or ["package"]
    return "-".join(["rlcore", "my", *words] if len(words) == 1 else ["rlcore", *words])


def _check_free(kind: str, name: str, again: str) -> None:
    """Raise ConfigError for a name that is already registered for the kind."""
    from rlcore.registry import names

    if name in names(kind):
        raise ConfigError(f"there is already {with_article(kind.replace('_', ' '))} called {name!r}. Type: {again}")


def write_plugin(names: PluginNames, kinds: Sequence[str], parent: Path) -> list[Path]:
    """Write the files of a new package into `parent`/DISTRIBUTION; return their paths.

    Raises ConfigError where there is something of that name.
    """
    folder = parent / names.distribution
    if folder.exists():
        raise ConfigError(f"{str(folder)!r} is there already. Choose another name, or remove it")
    words = _words(names, kinds)
    files = [(place, text, words) for place, text in _files(_text("package") + (SEVERAL if len(kinds) > 1 else ""))]
    for kind in kinds:
        own = names if len(kinds) == 1 else names._replace(package=f"{names.package}.{kind}")
        files += [(place, text, _words(own, [kind])) for place, text in _files(_text(kind))]
    written = []
    for place, text, words in files:
        # The subpackage rlcore_mine.loss is the folder rlcore_mine/loss; its tests are test_rlcore_mine_loss.py.
        inside, _, file = Template(place).substitute(words).rpartition("/")
        path = folder / inside.replace(".", "/") / file.replace(words["package"], words["package"].replace(".", "_"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text).substitute(words), encoding="utf-8")
        written.append(path)
    return written


def _words(names: PluginNames, kinds: Sequence[str]) -> dict[str, str]:
    """Return what stands for each `$word` of a template."""
    words = {
        **names._asdict(),
        "Class": names.class_name,
        "kinds": ", ".join(kinds),
        "meaning": "; what ".join(KINDS[kind].meaning for kind in kinds),
        "home": f"{names.package}/" + ("__init__.py" if len(kinds) == 1 else "KIND/__init__.py"),
    }
    uses = (_text(kind).partition("\n")[0].removeprefix("use: ") for kind in kinds)
    return {**words, "use": Template("\n".join(uses)).substitute(words)}


def _files(template: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file of a template."""
    for piece in re.split(rf"^{MARK}", template, flags=re.MULTILINE)[1:]:
        place, _, text = piece.partition("\n")
        yield place, text


def _text(name: str) -> str:
    return importlib.resources.files("rlcore.cli").joinpath("templates", f"{name}.txt").read_text(encoding="utf-8")
