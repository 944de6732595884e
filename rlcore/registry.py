"""The registry: all components and services by kind and name, who registered each, and why a plugin is left out."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

from rlcore import hooks
from rlcore.columns import COLUMNS, ColumnTable
from rlcore.component import check, source_of
from rlcore.errors import RegistryError, nearest, unknown
from rlcore.hooks import Add
from rlcore.kinds import KINDS

log = logging.getLogger("rlcore")


@dataclass(frozen=True)
class Entry:
    """One registered thing and where it comes from."""

    kind: str
    name: str
    thing: Any
    distribution: str
    version: str
    plugin: str


@dataclass(frozen=True)
class Plugin:
    """One entry point. `reason` and `traceback` say why it was left out; both are empty where it was loaded."""

    name: str
    module: str
    distribution: str
    version: str
    reason: str = ""
    traceback: str = ""


def _same(first: Any, second: Any) -> bool:
    """Return whether two registrations are one thing, perhaps imported twice: module, name and options are equal."""
    if first is second or first == second:
        return True
    if isinstance(first, str) or isinstance(second, str):
        return False
    a, b = source_of(first), source_of(second)
    return (
        (a.__module__, a.__qualname__) == (b.__module__, b.__qualname__)
        and type(first) is type(second)
        and _keywords(first) == _keywords(second)
    )


def _keywords(thing: Any) -> dict[str, Any]:
    return {**_keywords(thing.func), **thing.keywords} if isinstance(thing, functools.partial) else {}


def _put(owners: list[Entry], entry: Entry) -> None:
    for known in owners:
        if _same(known.thing, entry.thing):
            return
        if known.distribution == entry.distribution:
            raise RegistryError(
                f"{entry.kind} {entry.name!r} is registered twice by {entry.distribution or 'one distribution'}: "
                f"in plugin {known.plugin} and in plugin {entry.plugin}"
            )
    owners.append(entry)


def _owner(plugin: Plugin) -> str:
    return f"plugin {plugin.name} of {plugin.distribution or 'this process'}"


class Registry:
    """All plugins of an environment and what they registered. One that fails is left out, and the others work."""

    def __init__(self) -> None:
        self.manager = pluggy.PluginManager(hooks.ENTRY_POINTS)
        self.manager.add_hookspecs(hooks)
        self.plugins: list[Plugin] = []
        self.columns: ColumnTable = COLUMNS
        self._column_owners: dict[str, str] = dict.fromkeys(COLUMNS, "rlcore")
        self._entries: dict[str, dict[str, list[Entry]]] = {kind: {} for kind in KINDS}

    @classmethod
    def from_entry_points(cls) -> Registry:
        """Load every installed plugin, one by one: pluggy's own loader would stop at the first that fails."""
        registry = cls()
        points = sorted(
            importlib.metadata.entry_points(group=hooks.ENTRY_POINTS),
            key=lambda p: (p.dist.name != "rlcore" if p.dist else True, p.name),
        )
        for point in points:
            distribution = point.dist.name if point.dist else ""
            plugin = Plugin(point.name, point.value, distribution, point.dist.version if point.dist else "")
            if not _is_enabled(plugin):
                registry.plugins.append(replace(plugin, reason="switched off by RLCORE_PLUGINS"))
                continue
            registry.load(plugin, point.load)
        return registry

    def load(self, plugin: Plugin, loader: Callable[[], Any]) -> None:
        """Import and register one plugin; an error leaves it out and becomes its reason."""
        module = None
        try:
            module = loader()
            if self.manager.is_registered(module):
                # A second entry point to one module: everything that it offers and watches is there already.
                self.plugins.append(plugin)
                return
            self.manager.register(module, name=f"{plugin.distribution}:{plugin.name}")
            self.manager.check_pending()
            self._refuse_wrappers(module)
            self._offer(plugin, module)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a stranger raises, the others must work
            if module is not None and self.manager.is_registered(module):
                self.manager.unregister(module)
            reason = f"{type(error).__name__}: {error}"
            log.warning("plugin %s of %s is left out: %s", plugin.name, plugin.distribution or "this process", reason)
            self.plugins.append(replace(plugin, reason=reason, traceback=traceback.format_exc()))
        else:
            self.plugins.append(plugin)

    def _offer(self, plugin: Plugin, module: Any) -> None:
        implementation = getattr(module, "register", None)
        if implementation is None:
            return
        add = Add()
        implementation(add)
        columns, owners = self.columns, dict(self._column_owners)
        for column in add.columns:
            if column.name in owners and columns[column.name] != column:
                raise RegistryError(
                    f"column {column.name!r} is declared by {owners[column.name]} and, otherwise, by {_owner(plugin)}"
                )
            columns = columns.declare(column, owner=_owner(plugin))
            owners.setdefault(column.name, _owner(plugin))
        for kind, _, thing in add.offers:
            if KINDS[kind].form == "component" and not isinstance(thing, str):
                check(kind, thing, table=columns)
        entries = self._copied_entries()
        for kind, name, thing in add.offers:
            entry = Entry(kind, name, thing, plugin.distribution, plugin.version, plugin.name)
            _put(entries[kind].setdefault(name, []), entry)
        # All of a plugin or nothing of it.
        self.columns, self._column_owners, self._entries = columns, owners, entries

    def _copied_entries(self) -> dict[str, dict[str, list[Entry]]]:
        return {kind: {name: list(owners) for name, owners in named.items()} for kind, named in self._entries.items()}

    def _refuse_wrappers(self, module: Any) -> None:
        """Raise RegistryError for a hook that is marked as a wrapper: it would never be called."""
        for caller in self.manager.get_hookcallers(module) or ():
            for implementation in caller.get_hookimpls():
                if implementation.plugin is module and (implementation.wrapper or implementation.hookwrapper):
                    raise RegistryError(
                        f"hook {caller.name!r} is marked as a wrapper, which would never run: hooks of rlcore offer "
                        f"or watch. Write @hookimpl without wrapper=True"
                    )

    def notify(self, hook: str, **arguments: Any) -> None:
        """Call a watching hook of every plugin; a failure is logged with the plugin's name and stops nothing.

        RLCORE_STRICT_HOOKS=1 raises it instead, for whoever writes a plugin.
        """
        for implementation in reversed(getattr(self.manager.hook, hook).get_hookimpls()):
            wanted = {name: arguments[name] for name in implementation.argnames if name in arguments}
            try:
                implementation.function(**wanted)
            except Exception:
                if os.environ.get("RLCORE_STRICT_HOOKS") == "1":
                    raise
                log.exception("plugin %s failed in hook %s; the run goes on", implementation.plugin_name, hook)

    # -- asking

    def entries(self, kind: str | None = None) -> Iterator[Entry]:
        """Yield every entry of a kind, or of all."""
        for known in KINDS if kind is None else (_kind(kind),):
            for owners in self._entries[known].values():
                yield from owners

    def clashes(self) -> dict[tuple[str, str], list[str]]:
        """Return the names that several distributions registered: (kind, name) -> `distribution:name` of each."""
        return {
            (kind, name): [f"{entry.distribution}:{name}" for entry in owners]
            for kind, of_kind in self._entries.items()
            for name, owners in of_kind.items()
            if len(owners) > 1
        }

    def unambiguous(self, kind: str, name: str, *, distribution: str = "rlcore") -> str:
        """Return a name as a distribution means it: `distribution:name` where it has it and another too, else the name.

        For names that no person typed: defaults, packaged experiments, saved configurations.
        """
        own = f"{distribution}:{name}"
        return own if own in self.clashes().get((kind, name), ()) else name

    def names(self, kind: str) -> list[str]:
        """Return the names of a kind, sorted; a name with two owners is given as `distribution:name`, once each."""
        result = []
        for name, owners in self._entries[_kind(kind)].items():
            result += [name] if len(owners) == 1 else [f"{e.distribution}:{name}" for e in owners]
        return sorted(result)

    def entry(self, kind: str, name: str) -> Entry:
        """Return the entry of a name or of `distribution:name`. Raises UnknownNameError or RegistryError."""
        distribution, _, short = name.rpartition(":")
        owners = self._entries[_kind(kind)].get(short, [])
        if distribution:
            owners = [e for e in owners if e.distribution == distribution]
        if len(owners) > 1:
            both = " and ".join(f"{e.distribution} {e.version}" for e in owners)
            raise RegistryError(
                f"{kind} {short!r} is registered by {both}; say which: "
                + ", ".join(f"{e.distribution}:{short}" for e in owners)
            )
        if not owners:
            error = unknown(kind, name, self.names(kind))
            broken = [f"plugin {p.name} ({p.distribution}) is out: {p.reason}" for p in self.plugins if p.reason]
            raise type(error)(". ".join([str(error), *(broken or [_own_file(name)])]))
        return owners[0]

    def get(self, kind: str, name: str) -> Any:
        """Return the thing of a name, of `distribution:name`, of `path/to/file.py:attribute` or `module:attribute`.

        Raises UnknownNameError with the nearest name, and the reasons of plugins that are out; ComponentError for what
        is imported here and cannot serve as a component of this kind. What a plugin handed over was checked then.
        """
        if ".py:" in name:
            thing = load_file(name)
        else:
            module, _, attribute = name.partition(":")
            thing = name if attribute and "." in module else self.entry(kind, name).thing
            if not isinstance(thing, str) or KINDS[kind].form == "file":
                return thing
            thing = resolve(thing)
        if KINDS[kind].form == "component":
            check(kind, thing, table=self.columns)
        return thing


def _own_file(name: str) -> str:
    """Return how a function of a file is named, for a name that nobody registered."""
    path, _, attribute = name.partition(":")
    file = path if path.endswith(".py") else f"{path}.py"
    if Path(file).is_file():
        return f"To take it from the file {file} write {file}:{attribute or 'NAME'}"
    return "One of your own is path/to/file.py:NAME"


def _kind(kind: str) -> str:
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    return kind


def _is_enabled(plugin: Plugin) -> bool:
    """Apply RLCORE_PLUGINS: a comma list of names to load, or of `-name` to leave out; our own always load."""
    chosen = [item.strip() for item in os.environ.get("RLCORE_PLUGINS", "").split(",") if item.strip()]
    names = {plugin.name, plugin.distribution}
    if plugin.distribution == "rlcore" or not chosen:
        return True
    if any(item.startswith("-") and item[1:] in names for item in chosen):
        return False
    positive = [item for item in chosen if not item.startswith("-")]
    return not positive or any(item in names for item in positive)


def resolve(spec: str) -> Any:
    """Return what `module:attribute` names. Raises RegistryError with the cause."""
    module, _, attribute = spec.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever a stranger's module raises while it is imported
        raise RegistryError(f"{spec!r} cannot be loaded: {type(error).__name__}: {error}") from error


def load_file(spec: str) -> Any:
    """Return what `path/to/file.py:attribute` names; the module travels to other processes by value.

    Raises RegistryError naming the path, or the nearest attribute.
    """
    path_text, _, attribute = spec.rpartition(":")
    path = Path(path_text).expanduser().resolve()
    if not path.is_file():
        neighbours = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise RegistryError(f"{spec!r}: there is no file {path}.{nearest(path.name, neighbours)}")
    module = _import_file(path)
    if not hasattr(module, attribute):
        public = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
        raise RegistryError(
            f"{path} has no {attribute!r}; it has: {', '.join(public) or 'none'}.{nearest(attribute, public)}"
        )
    return getattr(module, attribute)


def _import_file(path: Path) -> ModuleType:
    # The same name in every process: it is part of what a resumed run compares.
    name = f"rlcore_file_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RegistryError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__rlcore_file__"] = True
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a script that ends itself would end the run without a word
        del sys.modules[name]
        raise RegistryError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


@functools.cache
def registry() -> Registry:
    """Return the registry of this process, made on first use."""
    return Registry.from_entry_points()


def get(kind: str, name: str) -> Any:
    """Return a registered thing: `get("advantage", "gae")`."""
    return registry().get(kind, name)


def names(kind: str) -> list[str]:
    """Return the registered names of a kind."""
    return registry().names(kind)


__all__ = ["Entry", "Plugin", "Registry", "get", "load_file", "names", "registry", "resolve"]
