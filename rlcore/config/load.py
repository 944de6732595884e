"""From a file and a command line to an experiment, checked before anything loads."""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.component import options
from rlcore.config.bind import bind_request
from rlcore.config.overrides import Override, parse_overrides
from rlcore.config.yaml_files import read_file, read_tree
from rlcore.errors import ConfigError, RLCoreError, UnknownNameError
from rlcore.experiment import Experiment
from rlcore.kinds import GROUPS
from rlcore.registry import names, registry
from rlcore.settings import RESUMABLE

if TYPE_CHECKING:
    from rlcore.config.compose import Source


def load(
    overrides: Sequence[str] = (),
    file: Path | str | None = None,
    *,
    folders: Sequence[Path | str] = (),
) -> Experiment:
    """Return the experiment of a YAML file, a registered name or neither, with `key=value` overrides laid over it.

    Without a file, and without `data=` or `model=`, the overrides are laid over the default run; with `resume=RUN` or
    `start_from=RUN` (this one unless both are given), over that run's own config.yaml. Paths are relative to the
    working directory, also those in a file. `folders` hold files of the user's own, one folder a configuration group,
    beside those of the experiment's own folder.

    Raises ConfigError, UnknownNameError, RegistryError, ComponentError or GraphError: an unknown key, component or
    option (with the nearest), a value of the wrong type, a setting without effect, components or sizes that do not fit.
    """
    # Hydra is imported when something is composed, and not for a line of help.
    from rlcore.config.compose import compose

    line = parse_overrides(overrides)
    source = read_source(line, file, folders)
    experiment = bind_request(compose(source, line))
    check_resume(source, line, experiment)
    return experiment


def read_source(line: Sequence[Override], file: Path | str | None, folders: Sequence[Path | str] = ()) -> Source:
    """Return what the overrides are laid over. Raises ConfigError for a file that is not there or not YAML."""
    from rlcore.config.compose import Source

    own = tuple(Path(folder).expanduser() for folder in folders)
    for folder in own:
        if not folder.is_dir():
            raise ConfigError(f"--config-dir {str(folder)!r} is no folder")
    if file is not None and str(file) in names("experiment") and not Path(file).exists():
        return Source(*preset(str(file)), own)
    if file is not None:
        path = Path(file).expanduser()
        tree = read_file(path)
        kept = path.name in ("config.yaml", "resolved.yaml") and (path.parent / "versions.json").is_file()
        if kept:
            return Source(with_distribution("rlcore", tree), str(path), own)
        return Source(tree, str(path), (*own, path.parent))
    keys = {override.key: override for override in line}
    for key in ("resume", "start_from"):
        override = keys.get(key)
        if override is None or override.value is None:
            continue
        if key == "start_from" and "data" in keys and {"model", "model.source"} & keys.keys():
            continue
        return Source(run_tree(key, override), str(override.value), own)
    if {"data", "data.name", "model", "model.source"} & keys.keys():
        return Source({}, "", own)
    return Source(*preset("default"), own)


def run_tree(key: str, override: Override) -> dict[str, Any]:
    """Return what `resume=RUN` or `start_from=RUN@STEP` lays beneath a command line. Raises ConfigError."""
    path, at, step = override.text.strip().rpartition("@")
    run = path if at and step.isdecimal() and key == "start_from" else override.text.strip()
    try:
        tree = with_distribution("rlcore", read_file(Path(run).expanduser() / "config.yaml"))
    except ConfigError as error:
        raise ConfigError(f"{key}={override.shown()} names no run: {error}") from error
    if key == "start_from":
        tree.pop("resume", None)
        tree.pop("start_from", None)
        if isinstance(tree.get("run"), Mapping):
            tree["run"] = {k: v for k, v in tree["run"].items() if k != "name"}
    return tree


def with_distribution(distribution: str, tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tree that nobody typed; a name that several distributions have means that of this distribution.

    Also the names of components among the options of a component, such as the rewards that `weighted` combines.
    """

    def qualified(kind: str, value: Any) -> Any:
        if isinstance(value, list):
            return [qualified(kind, each) for each in value]
        if isinstance(value, Mapping):
            if "name" not in value:
                return dict(value)
            name = qualified(kind, value["name"])
            kinds = inner_kinds(kind, name)
            return {"name": name, **{key: inner(kind, kinds, key, value[key]) for key in value if key != "name"}}
        return registry().unambiguous(kind, value, distribution=distribution) if isinstance(value, str) else value

    def inner(kind: str, kinds: Mapping[str, str], option: str, value: Any) -> Any:
        if option in kinds:
            return qualified(kinds[option], value)
        # A dictionary may hold components of the same kind, as that of `weighted` holds rewards.
        return {k: qualified(kind, each) for k, each in value.items()} if isinstance(value, Mapping) else value

    return {key: qualified(GROUPS[key][0].name, value) if key in GROUPS else value for key, value in tree.items()}


def inner_kinds(kind: str, name: Any) -> dict[str, str]:
    """Return the kinds of the options that are components, by option; none for a name that cannot be loaded."""
    try:
        known = options(registry().get(kind, name)) if isinstance(name, str) else {}
    except RLCoreError:  # `find_component` says later what is wrong with it
        return {}
    return {option.name: option.kind for option in known.values() if option.kind is not None}


def preset(name: str) -> tuple[dict[str, Any], str]:
    """Return the tree of a registered experiment, `package:resource.yaml`, and where it stands. Raises ConfigError."""
    try:
        entry = registry().entry("experiment", registry().unambiguous("experiment", name))
    except UnknownNameError as error:
        raise ConfigError(f"nothing to train: give a file, or data= and model= ({error})") from error
    spec = str(entry.thing)
    package, _, resource = spec.partition(":")
    try:
        text = importlib.resources.files(package).joinpath(resource).read_text(encoding="utf-8")
    except (ImportError, OSError) as error:
        raise ConfigError(f"experiment {name!r} ({spec}) cannot be read: {error}") from error
    return with_distribution(entry.distribution, read_tree(text, spec)), spec


def check_resume(source: Source, line: Sequence[Override], experiment: Experiment) -> None:
    """Raise ConfigError for a resumed run with a component or setting that only a new run may change."""
    keys = [override.key for override in line]
    fixed = [key for key in keys if key.partition(".")[0] not in RESUMABLE]
    if "resume" not in keys or experiment.settings.resume is None or not fixed:
        return
    from rlcore.config.compose import compose

    kept = [override for override in line if override.key not in fixed]
    before = bind_request(compose(source, kept)).resolved
    changed = [
        key for key in before.keys() | experiment.resolved.keys() if before.get(key) != experiment.resolved.get(key)
    ]
    if set(changed) - set(RESUMABLE):
        raise ConfigError(
            f"resume: {fixed[0]} cannot be changed in a resumed run; it may change "
            f"{', '.join(k for k in RESUMABLE if k != 'resume')}. "
            f"To begin a new run from its weights use start_from={experiment.settings.resume}"
        )
