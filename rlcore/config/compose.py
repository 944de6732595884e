"""A file and a command line composed by Hydra, into what somebody said of settings and components.

Hydra is used by its documented names: its sources, its store, `initialize`, `compose` and `multirun`. It never changes
the working directory, writes a folder of its own or sets up logging, and whoever uses Hydra around this finds it as it
was.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcore.config import sources
from rlcore.config.hydra_state import own_hydra
from rlcore.config.overrides import Override, canonical, parse_overrides, single_quoted, written_value
from rlcore.errors import ConfigError, nearest
from rlcore.kinds import GROUPS
from rlcore.settings import ALONE, Settings, sections


@dataclass(frozen=True)
class ComposedRequest:
    """What somebody said of a run, before anything is judged.

    Attributes:
        tree: choices, options and settings that somebody said, interpolations resolved; what nobody said is not there.
        line: the overrides of the command line, in order.
        texts: of values of the command line: how they were written, and why they are a text alone ("" if they are not).
    """

    tree: dict[str, Any]
    line: tuple[Override, ...]
    texts: Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Source:
    """What a command line is laid over: a file's tree, where it stands, and the folders of the user's options."""

    tree: Mapping[str, Any]
    where: str = ""
    folders: tuple[Path, ...] = ()


def compose(source: Source, line: Sequence[Override]) -> ComposedRequest:
    """Return what a file and a command line say together. Raises ConfigError for what cannot be composed."""
    with own_hydra(), sources.numbered(), reworded(source):
        name, words = prepared(source, line, sweep=False)
        return request_of(hydra.compose(name, overrides=words, return_hydra_config=True), line)


def prepared(source: Source, line: Sequence[Override], *, sweep: bool) -> tuple[str, list[str]]:
    """Return the name of the primary configuration, stored, and the command line in Hydra's words."""
    tree = left_over(sources.nested(source.tree, source.where), line)
    own = sources.own_words(tree.get("defaults") or [] if isinstance(tree.get("defaults"), list) else [])
    words: list[str] = []
    # Shorter keys first, so that a component is there before its options.
    for override in sorted(line, key=lambda one: one.key.count(".")):
        if canonical(override.key) in GROUPS and override.sign != "~":
            words += _choice(override, canonical(override.key), line, sweep=sweep)
        else:
            words += _words(override, line, source, own, sweep=sweep)
    return sources.store_primary(tree, source.folders, [f"{o.sign}{o.key}={o.text}" for o in line]), words


def left_over(tree: dict[str, Any], line: Sequence[Override]) -> dict[str, Any]:
    """Return a file's tree without what the command line leaves without effect."""
    said = {override.key: override for override in line}
    gone: list[tuple[str, ...]] = [("steps",)] if "epochs" in said and "steps" not in said else []
    gone += [("epochs",)] if "steps" in said and "epochs" not in said else []
    if "model" in said or "model.source" in said:
        gone.append(("model",))  # another model has another chat template
    if (greedy := said.get("eval.greedy")) is not None and str(greedy.value).lower() in ("true", "yes", "on", "1"):
        gone += [("eval", "temperature"), ("eval", "samples")]
    if (epochs := said.get("warm_start.epochs")) is not None and str(epochs.value) == "0":
        gone += [("warm_start", "learning_rate"), ("warm_start", "rows")]
    # A component written out among options replaces another one with that one's options.
    gone += [
        tuple(o.key.split(".")) for o in line if "." in o.key and isinstance(o.value, Mapping) and "name" in o.value
    ]
    tree = copy.deepcopy(tree)
    for *above, last in gone:
        inside: Any = tree
        for word in above:
            inside = inside.get(word) if isinstance(inside, dict) else None
        if isinstance(inside, dict):
            inside.pop(last, None)
    return tree


def _words(
    override: Override, line: Sequence[Override], source: Source, own: set[str], *, sweep: bool
) -> Iterator[str]:
    """Yield one override of the command line that chooses no component in Hydra's words."""
    key, first = canonical(override.key), override.key.partition(".")[0]
    if first in GROUPS and override.sign == "~":
        if key == first:
            raise ConfigError(f"~{key}: nothing is removed this way. To switch a component off write {key}=null")
    elif key.partition("/")[0].partition("@")[0] == "hydra" or first == "hydra":
        yield from _of_hydra(override, source, sweep=sweep)
    elif any(folder.joinpath(key.partition("@")[0]).is_dir() for folder in source.folders if "." not in key):
        sign = override.sign or ("" if key.partition("@")[0] in own else "+")
        yield f"{sign}{key}" + ("" if override.sign == "~" else f"={_value(override, sweep=sweep)}")
    elif first == "sweep" and not sweep:
        raise ConfigError(f"{override.key}={override.shown()} has no effect: it counts only in a sweep: add -m")
    elif override.sign == "~":
        raise ConfigError(
            f"~{key}: a setting cannot be taken away; left out, it has its default. "
            f"To switch a component off write {key}=null"
        )
    elif key in sections() and not isinstance(override.value, Mapping):
        raise ConfigError(sources.not_a_section(key, override.shown()))
    else:
        key = override.key if override.key in ALONE and isinstance(override.value, Mapping) else key
        known = first in GROUPS or first in Settings.model_fields or first in source.tree
        inner = any(one.key.startswith(f"{key}.") for one in line)
        value = _value(override, sweep=sweep)
        if inner and first in GROUPS and isinstance(override.value, str) and not (sweep and override.sweep):
            value = "{name:" + value + "}"
        yield f"{'' if known else '++'}{key}={value}"


def _value(override: Override, *, sweep: bool) -> str:
    if sweep and override.sweep:
        return override.text
    if override.problem or not override.text.strip():
        return single_quoted(override.text)
    return override.text


def _choice(override: Override, group: str, line: Sequence[Override], *, sweep: bool) -> Iterator[str]:
    """Yield the words that choose a component. Raises ConfigError for what cannot be a choice."""
    if override.sweep and sweep:
        listed = ",".join(sources.option_of(group, _named(one)) for one in override.elements)
        yield f"{group}={listed or override.text}"
        return
    file = ".py:" in override.text and override.text.strip()[:1] not in "[{"
    if override.problem and not file and (override.sweep or override.text.lstrip()[:1] in ("[", "{")):
        raise ConfigError(f"{group}={override.shown()}: {override.problem}")
    value = override.text if file or override.problem else override.value
    if isinstance(value, Mapping) and "name" not in value:
        others = {one.key for one in line}
        for name, one in value.items():
            if f"{group}.{name}" not in others:
                yield f"{group}.{name}={written_value(one)}"
        return
    if isinstance(value, bool | int | float):
        value = override.text.strip()  # a name of digits
    yield f"{group}={sources.option_of(group, value)}"


def _named(value: Any) -> Any:
    return str(value) if isinstance(value, bool | int | float) else value


def _of_hydra(override: Override, source: Source, *, sweep: bool) -> Iterator[str]:
    """Yield a word of Hydra's own settings. Raises ConfigError for one that has no effect."""
    if override.key == "hydra.searchpath":
        further = override.value if isinstance(override.value, list) else [override.value]
        yield f"hydra.searchpath={written_value(sources.searchpath(source.folders, map(str, further)))}"
        return
    if not sweep:
        raise ConfigError(f"{override.key}={override.shown()}: Hydra's own settings count only in a sweep: add -m")
    group, _, option = override.key.partition("/")
    if group == "hydra" and option:
        with own_hydra() as ours:
            known = ours.config_loader.get_group_options(override.key)
        if known and str(override.value) not in known:
            raise ConfigError(
                f"{override.key}={override.shown()} is unknown; known: {', '.join(known)}."
                f"{nearest(str(override.value), known)} Launchers and sweepers come with pip install 'rlcore[sweeps]'"
            )
    yield f"{override.sign}{override.key}={override.text}"


def request_of(config: DictConfig, line: Sequence[Override], *, job: bool = False) -> ComposedRequest:
    """Return what a composed configuration says; interpolations are resolved over the defaults of the settings.

    `job`: it is one of a sweep, in which a key that lists several values has one of them.
    """
    own = config.hydra if "hydra" in config else HydraConfig.get()  # a job's configuration comes without it
    groups = {str(key).partition("@")[0] for key in own.runtime.choices} - GROUPS.keys()  # for interpolation alone
    tree: Any = OmegaConf.to_container(OmegaConf.masked_copy(config, [str(k) for k in config if k != "hydra"]))
    del tree[sources.HIDDEN]
    typed = {canonical(override.key) for override in line if override.sign != "~"}
    unsaid = {key for key in Settings.model_fields if tree.get(key) == "???"} - typed
    said = {key: value for key, value in tree.items() if key not in unsaid}
    whole = OmegaConf.create(sources.merged(_defaults(), said))
    resolved: Any = OmegaConf.to_container(whole, resolve=True)
    spoken = {}
    for key, value in said.items():
        spoken[key] = resolved[key]
        if key in sections() and key not in GROUPS and isinstance(value, dict):
            spoken[key] = {name: resolved[key][name] for name in value}
    named = (*sections(), "roles", *GROUPS)
    return ComposedRequest(
        tree={k: v for k, v in spoken.items() if k not in groups and (v != {} or k not in named)},
        line=tuple(line),
        texts={
            canonical(override.key): (override.text, override.problem)
            for override in line
            if ("${" not in override.text or override.problem) and not (job and override.sweep)
        },
    )


@functools.cache
def _defaults() -> dict[str, Any]:
    return Settings.model_construct(model={}).model_dump(mode="json", exclude={"data"}, warnings=False)


@contextmanager
def reworded(source: Source) -> Iterator[None]:
    """Raise what Hydra and OmegaConf raise as ConfigError, in plain words."""
    try:
        yield
    except ConfigError:
        raise
    except MissingConfigException as error:
        if isinstance(error.__cause__, ConfigError):
            raise error.__cause__ from None
        name, options = str(error.missing_cfg_file), [str(one) for one in error.options or ()]
        group, _, option = name.rpartition("/")
        known = f"; there are: {', '.join(options)}.{nearest(option, options)}" if options else ""
        raise ConfigError(
            f"{group}={option}: there is no such file of yours{known}" if group else _plainly(error, source)
        ) from error
    except (
        HydraException,
        OmegaConfBaseException,
        RecursionError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
    ) as error:
        raise ConfigError(_plainly(error, source)) from error


def _plainly(error: BaseException, source: Source) -> str:
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    hint = ""
    if "nterpolation" in type(cause).__name__ or "Grammar" in type(cause).__name__:
        hint = ". A text that holds ${ is written with \\${"
    place = f"{source.where}: " if source.where else ""
    return f"{place}the configuration cannot be composed: {lines[0] if lines else type(cause).__name__}{hint}"


# -- sweeps


def sweep(
    source: Source, overrides: Sequence[Override], task: Callable[[DictConfig], Any], words: Sequence[str]
) -> Any:
    """Run a task for every job of a sweep, by the sweeper and the launcher that were chosen; return what they return.

    `task` is a function of a module and takes the composed configuration, of which `request_of_job` makes a request.
    `words` are Hydra's own settings.
    """
    with reworded(source), own_hydra() as ours:
        name, line = prepared(source, overrides, sweep=True)
        return ours.multirun(name, task, [*line, *words, "hydra.mode=MULTIRUN"], with_log_configuration=False)


def hydra_of(source: Source, overrides: Sequence[Override]) -> DictConfig:
    """Return Hydra's own settings as a sweep would use them: its sweeper, its launcher and their options."""
    with reworded(source), own_hydra():
        name, line = prepared(source, overrides, sweep=True)
        own = [word for word in line if word.lstrip("+").startswith(("hydra/", "hydra."))]
        return hydra.compose(name, overrides=own, return_hydra_config=True).hydra


def sweeper_of(source: Source, overrides: Sequence[Override]) -> str:
    """Return the name of the sweeper that a sweep would use."""
    return str(hydra_of(source, overrides).runtime.choices["hydra/sweeper"])


def request_of_job(config: DictConfig) -> ComposedRequest:
    """Return what a job of a sweep was told."""
    with reworded(Source({})):
        return request_of(config, line_of_job(config), job=True)


def line_of_job(config: DictConfig) -> list[Override]:
    """Return the command line of the sweep that a job belongs to."""
    return parse_overrides(json.loads(config[sources.HIDDEN]))


def overrides_of_job(config: DictConfig) -> list[str]:
    """Return what a job of a sweep was told and the others were not, as a person writes it."""
    fixed = {canonical(override.key) for override in line_of_job(config) if not override.sweep}
    shown = []
    for word in HydraConfig.get().overrides.task:
        key, _, value = str(word).partition("=")
        if key.lstrip("+") not in fixed:
            shown.append(f"{key}={sources.shown_option(key, value)}" if key in GROUPS else str(word))
    return shown
