"""What Hydra composes from: the registry, a user's folders, and options that somebody wrote out.

Everything here uses Hydra's documented interfaces alone: plugins of the class ConfigSource, and the ConfigStore.
Nodes are plain dictionaries; names, options, types and ranges are judged by signatures, in `rlcore.config.bind`.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import DictConfig, OmegaConf

from rlcore.config.overrides import put
from rlcore.config.specs import configuration_groups
from rlcore.config.yaml_files import read_file
from rlcore.errors import ConfigError
from rlcore.kinds import GROUPS
from rlcore.registry import names
from rlcore.settings import ALONE, Settings, sections

WRITTEN = "written-"
"""How the name of an option begins that stands for a list, null, or a mapping that somebody wrote out."""
PLAIN = re.compile(r"(?![/.~])[\w./:-]{1,150}")
"""Names that Hydra's grammar, its lists of defaults and its file names take as they are."""
HIDDEN = "_rlcore_"
"""Key of the primary configuration under which its command line travels to the jobs of a sweep."""
PACKAGE = re.compile(r"^# *@package +(\S+) *$", re.MULTILINE)


class RegistrySource(ConfigSource):
    """`registry://` serves `loss/clipped` as `{name: clipped}`: every registered name of every configuration group.

    A name that is not registered is served as well: the registry's own error names the nearest one.
    """

    @staticmethod
    def scheme() -> str:
        """Return the scheme of the source's address."""
        return "registry"

    def load_config(self, config_path: str) -> ConfigResult:
        """Return the node of a name."""
        _, _, name = config_path.partition("/")
        node = OmegaConf.create({"name": name})
        return ConfigResult(self.provider, self.full_path(), node, header={"package": None})

    def available(self) -> bool:
        """Tell whether the source can be used: always."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Tell whether it is a configuration group."""
        return config_path.strip("/") in GROUPS

    def is_config(self, config_path: str) -> bool:
        """Tell whether it is a name in a configuration group."""
        group, _, name = config_path.partition("/")
        return group in GROUPS and bool(name) and not name.startswith(WRITTEN)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Return the groups, or the names of one: what `glob(dr*)` looks among."""
        group = config_path.strip("/")
        if not group:
            return [] if results_filter == ObjectType.CONFIG else sorted(GROUPS)
        if group not in configuration_groups() or results_filter == ObjectType.GROUP:
            return []
        return names(GROUPS[group][0].name)


class FolderSource(ConfigSource):
    """`folder://PATH` serves a user's YAML files, read as every file of an experiment is read."""

    @staticmethod
    def scheme() -> str:
        """Return the scheme of the source's address."""
        return "folder"

    def _file(self, config_path: str) -> Path:
        return Path(self.path) / (config_path if config_path.endswith((".yaml", ".yml")) else f"{config_path}.yaml")

    def load_config(self, config_path: str) -> ConfigResult:
        """Return the content of a file. Raises ConfigError for one that is not YAML."""
        file = self._file(config_path)
        package = PACKAGE.search(file.read_text(encoding="utf-8", errors="replace"))
        tree = read_file(file)
        if package is not None and package[1] == "_global_":
            # What it chooses replaces what was chosen before it, options and all.
            chosen, tree = choices_of(tree)
            listed = [{f"override /{g}@_global_.{g}": option_of(g, value)} for g, value in chosen.items()]
            own = tree.pop("defaults", [])
            tree = {"defaults": [*own, *([] if "_self_" in own else ["_self_"]), *listed], **tree}
        header = {"package": package[1] if package else None}
        return ConfigResult(self.provider, self.full_path(), OmegaConf.create(tree), header)

    def available(self) -> bool:
        """Tell whether the folder is there."""
        return Path(self.path).is_dir()

    def is_group(self, config_path: str) -> bool:
        """Tell whether it is a folder."""
        return _is(Path.is_dir, Path(self.path) / config_path)

    def is_config(self, config_path: str) -> bool:
        """Tell whether it is a file."""
        return _is(Path.is_file, self._file(config_path))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Return the names of files and folders in a folder."""
        folder = Path(self.path) / config_path
        found = sorted(folder.iterdir()) if _is(Path.is_dir, folder) else []
        files = [p.stem for p in found if p.suffix == ".yaml" and results_filter != ObjectType.GROUP]
        return files + [p.name for p in found if p.is_dir() and results_filter != ObjectType.CONFIG]


def _is(test: Any, path: Path) -> bool:
    try:
        return bool(test(path))
    except (OSError, ValueError):  # a name that is too long, or with NUL
        return False


Plugins.instance().register(RegistrySource)
Plugins.instance().register(FolderSource)


def nested(tree: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Return a file's tree with keys that were written with dots as mappings. Raises ConfigError for other keys."""
    result: dict[str, Any] = {}
    for key, value in tree.items():
        if not isinstance(key, str) or not key:
            raise ConfigError(f"{where}: the key {key!r} is not a word")
        path = tuple(key.split("."))
        section = path[0] in sections() and path[0] not in GROUPS
        if key in ALONE and not isinstance(value, Mapping):
            path = (key, ALONE[key])
        if len(path) == 1 and section and not isinstance(value, Mapping):
            raise ConfigError(not_a_section(key, value, where=f"{where}: "))
        if len(path) == 1 and (section or key in GROUPS) and isinstance(value, Mapping):
            result.setdefault(key, {})
            for inner, one in value.items():
                put(result, (key, *str(inner).split(".")), one)
        else:
            put(result, path, value)
    return result


def not_a_section(key: str, shown: Any, where: str = "") -> str:
    """Return the message for a value where a section of settings is meant."""
    first = next(iter(sections()[key].model_fields))
    return f"{where}{key}={shown}: {key} is a section of settings: set {key}.{first} and the like"


def merged(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tree with another one laid over it."""
    result = dict(low)
    for key, value in high.items():
        before = result.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        result[key] = merged(before, value) if both else value  # type: ignore[arg-type]
    return result


def choices_of(tree: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a file chooses by group, and the rest; a mapping without a name only sets options, and is rest."""
    chosen = {
        key: value
        for key, value in tree.items()
        if key in GROUPS and not (isinstance(value, Mapping) and "name" not in value)
    }
    return chosen, {key: value for key, value in tree.items() if key not in chosen}


def option_of(group: str, value: Any, folders: Iterable[Path] = ()) -> str:
    """Return the option of a group that stands for a choice, options or both: a name, or what is stored for it.

    A list, null and a mapping cannot be options of Hydra's: it would merge a list into one mapping. In a mapping the
    name may be that of a file in one of the folders, whose options are then laid beneath the others.
    """
    node = dict(value) if isinstance(value, Mapping) else {"name": value}
    name = node.get("name")
    if isinstance(name, str) and len(node) == 1 and PLAIN.fullmatch(name) and not name.startswith(WRITTEN):
        return name
    if isinstance(name, str) and any(_is(Path.is_file, folder / group / f"{name}.yaml") for folder in folders):
        del node["name"]
        node = {"defaults": [name, "_self_"], **node}
    return _store(group, node)


_numbers: ContextVar[Iterator[int] | None] = ContextVar("_numbers", default=None)


@contextmanager
def numbered() -> Iterator[None]:
    """Number what is stored here, so that the next composition stores over it: Hydra copies its store for each of them.

    Elsewhere names are of what they stand for: the jobs of a sweep compose again and again.
    """
    token = _numbers.set(itertools.count())
    try:
        yield
    finally:
        _numbers.reset(token)


def _store(group: str | None, node: Mapping[str, Any] | DictConfig) -> str:
    """Store an option of a group, or a primary configuration, and return its name."""
    numbers = _numbers.get()
    if numbers is not None:
        mark = str(next(numbers))
    else:
        words = re.sub(r"[^\w]+", "-", json.dumps(node.get("name"), default=str)).strip("-")[:40]
        mark = f"{words}-{hashlib.sha256(repr(node).encode('utf-8', 'replace')).hexdigest()[:12]}"
    name = f"{WRITTEN}{mark}" if group else f"rlcore-{mark}"
    ConfigStore.instance().store(group=group, name=name, node=node, provider="rlcore")
    return name


def shown_option(group: str, option: str) -> str:
    """Return a choice as a person writes it: of an option that was written out, what stands there."""
    if not option.startswith(WRITTEN):
        return option
    node = OmegaConf.to_container(ConfigStore.instance().load(f"{group}/{option}.yaml").node)
    value = node["name"] if isinstance(node, dict) and set(node) == {"name"} else node
    return json.dumps(value)


def store_primary(tree: Mapping[str, Any], folders: Iterable[Path], line: Sequence[str]) -> str:
    """Store a file's tree as a primary configuration, and return its name.

    Every configuration group stands in its list of defaults, and what the file says of a slot of the algorithm hangs on
    the file's algorithm: so another choice drops what it replaces, by Hydra's own rules. `line`, the command line, is
    kept in it for the jobs of a sweep.
    """
    rest, folders = copy.deepcopy(dict(tree)), list(folders)
    listed, own = _own_defaults(rest.pop("defaults", None) or [])
    said = {**listed, **{key: rest.pop(key) for key in [*rest] if key in GROUPS}}
    for key in listed:
        if isinstance(said[key], Mapping) and "name" not in said[key]:
            said[key] = {"name": listed[key], **said[key]}
    options = {key: option_of(key, value, folders) for key, value in said.items()}
    slots = [key for key, (_, group) in configuration_groups().items() if group.slot]
    others = [key for key in configuration_groups() if key not in slots and key != "algorithm"]
    hung = [{f"override /{key}@_global_.{key}": options[key]} for key in slots if key in options]
    algorithm = options.get("algorithm")
    if hung:
        base = [algorithm] if algorithm else []
        algorithm = _store("algorithm", {"defaults": [*base, "_self_", *hung]})
    defaults: list[Any] = [
        *({key: options.get(key)} for key in others),
        *({key: None} for key in slots),
        {"algorithm": algorithm},
        *own,
    ]
    overrides = [e for e in defaults if isinstance(e, Mapping) and next(iter(e)).startswith("override ")]
    plain = [e for e in defaults if e not in overrides]
    plain += [] if "_self_" in plain else ["_self_"]
    quiet = [{"override hydra/hydra_logging": "none"}, {"override hydra/job_logging": "none"}]
    node = {
        "defaults": [*plain, *quiet, *overrides],
        "hydra": merged(_hydra(folders), rest.pop("hydra", None) or {}),
        **{key: "???" for key in Settings.model_fields if key not in sections()},
        **{key: {} for key in (*sections(), "roles", *configuration_groups())},
        **rest,
        HIDDEN: json.dumps(line).replace("$", r"\u0024"),  # nothing in it is an interpolation
    }
    config = OmegaConf.create(node)
    for key in (*sections(), "roles", *configuration_groups(), *(k for k in own_words(own))):
        if OmegaConf.is_dict(config.get(key)):
            OmegaConf.set_struct(config[key], False)
    return _store(None, config)


def own_words(defaults: Iterable[Any]) -> set[str]:
    """Return the groups of the user's own that a list of defaults chooses from."""
    return {
        key.split()[-1].lstrip("/").partition("@")[0]
        for entry in defaults
        if isinstance(entry, Mapping)
        for key in entry
    }


def _own_defaults(entries: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the choices of our groups in a file's list of defaults, and its other entries. Raises ConfigError."""
    if not isinstance(entries, list) or not all(isinstance(e, str | Mapping) and e for e in entries):
        raise ConfigError(f"defaults: expected a list of `group: name` or names of files, found {entries!r:.80}")
    chosen: dict[str, Any] = {}
    own: list[Any] = []
    for entry in entries:
        key = next(iter(entry)) if isinstance(entry, Mapping) else ""
        word = str(key).removeprefix("override ").strip().lstrip("/")
        if word in GROUPS:
            chosen[word] = entry[key]
        else:
            own.append(entry)
    return chosen, own


def _hydra(folders: Iterable[Path]) -> dict[str, Any]:
    """Return Hydra's own settings: no output folder, no change of the working directory, no logging."""
    return {
        "output_subdir": None,
        "job": {"chdir": False},
        "run": {"dir": "."},
        "sweep": {"dir": ".", "subdir": "."},
        "searchpath": searchpath(folders),
    }


def searchpath(folders: Iterable[Path], further: Iterable[str] = ()) -> list[str]:
    """Return where Hydra looks: the user's folders, further addresses, and the registry last."""
    return [*(f"folder://{folder.absolute()}" for folder in folders), *further, "registry://"]
