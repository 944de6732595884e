"""Who said what: a file and a command line as two layers, the later over the earlier.

Choosing a part takes its defaults, so a choice drops what an earlier layer said about that part's options; choosing an
algorithm does so for all its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from rlcore.config.notation import Given, Override, parse_override
from rlcore.config.parts import GROUPS, PARTS
from rlcore.config.values import read_as
from rlcore.errors import ConfigError
from rlcore.settings import Part, Settings

Path = tuple[str, ...]


@dataclass
class Layer:
    """Choices of parts by group, and settings by path, as one source gave them."""

    choices: dict[str, Given] = field(default_factory=dict)
    settings: dict[Path, Given] = field(default_factory=dict)
    removed: dict[Path, Given] = field(default_factory=dict)
    signs: dict[Path, str] = field(default_factory=dict)

    def of(self, group: str) -> dict[Path, Given]:
        """Return the settings under a group, by the rest of their path."""
        return {path[1:]: given for path, given in self.settings.items() if path[0] == group}

    def has(self, key: str) -> bool:
        """Tell whether anything was said about a key."""
        return key in self.choices or any(path[0] == key for path in self.settings)


def sections() -> dict[str, type[Part]]:
    """Return the settings that are groups of settings, by name."""
    return {name: kind for name in Settings.model_fields if (kind := section(Settings, name)) is not None}


def section(part: type[Part], name: str) -> type[Part] | None:
    """Return the model of a field that is a group of settings, or None."""
    annotation = part.model_fields[name].annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, Part) else None


def from_tree(tree: Mapping[Any, Any], where: str) -> Layer:
    """Return the layer of a file. Keys may be nested or written with dots. Raises ConfigError."""
    layer = Layer()
    for key, value in tree.items():
        if not isinstance(key, str) or not key:
            raise ConfigError(f"{where}: the key {key!r} is not a word")
        _say(layer, tuple(key.split(".")), Given(value, where=where))
    return layer


def from_overrides(overrides: Sequence[str]) -> Layer:
    """Return the layer of a command line; of one key the last counts. Raises ConfigError."""
    layer = Layer()
    for text in overrides:
        override = parse_override(text)
        if override.sign:
            layer.signs[override.path] = override.sign
        if override.sign == "~":
            _remove(layer, override)
        else:
            _say(layer, override.path, override.given)
    return layer


def _remove(layer: Layer, override: Override) -> None:
    if len(override.path) < 2:
        raise ConfigError(
            f"~{override.key}: nothing is removed this way. To switch a part off write {override.key}=null; a setting "
            f"left out has its default"
        )
    layer.removed[override.path] = override.given


def _say(layer: Layer, path: Path, given: Given) -> None:
    """Put one saying into a layer, in its simplest form."""
    head = path[0]
    if head in GROUPS and (len(path) == 1 or path[1:] == ("name",)):
        _choose(layer, head, given)
    elif path == ("model", "source") or (path == ("model",) and not isinstance(given.value, Mapping)):
        layer.choices["model"] = given
    elif head not in GROUPS and isinstance(given.value, Mapping) and _is_section(path):
        _spread(layer, path, given)
    elif len(path) == 1 and head in sections():
        first = next(iter(sections()[head].model_fields))
        raise ConfigError(f"{head}={given.shown()}: {head} is a group of settings: set {head}.{first} and the like")
    else:
        layer.settings[path] = given


def _is_section(path: Path) -> bool:
    return len(path) == 1 and path[0] in sections()


def _spread(layer: Layer, path: Path, given: Given) -> None:
    for name, value in given.value.items():
        _say(layer, (*path, *str(name).split(".")), Given(value, where=given.where))


def _choose(layer: Layer, group: str, given: Given) -> None:
    """Take a choice: a name, a list of them, null; or a mapping, whose options are settings of what `name` chooses."""
    value = given.value
    if given.problem and given.text is not None and given.text.lstrip()[:1] in "[{":
        raise ConfigError(f"{group}={given.shown()} cannot be read: {given.problem}")
    if isinstance(value, Mapping):
        if "name" in value:
            layer.choices[group] = Given(value["name"], where=given.where)
        for name, inner in value.items():
            if name != "name":
                layer.settings[group, *str(name).split(".")] = Given(inner, where=given.where)
        return
    if isinstance(value, bool | int | float):
        # A number is what a name of digits reads as.
        value = given.text if given.text is not None else str(value)
    layer.choices[group] = Given(value, given.text, given.where)


SWITCHES: tuple[tuple[Path, tuple[str, ...], tuple[Path, ...]], ...] = (
    (("eval", "greedy"), ("true", "yes", "on", "1"), (("eval", "temperature"), ("eval", "samples"))),
    (("warm_start", "epochs"), ("0",), (("warm_start", "learning_rate"), ("warm_start", "rows"))),
)
"""Settings that leave others without effect, and at which values."""


def over(low: Layer, high: Layer) -> Layer:
    """Return the two as one, the second over the first. What the second leaves without effect goes, too."""
    dropped = set(high.choices)
    if "algorithm" in high.choices:
        dropped |= set(PARTS)
    # A run has one length: the later word on it counts, whichever of the two it uses.
    for length, other in (("steps", "epochs"), ("epochs", "steps")):
        if (length,) in high.settings and (other,) not in high.settings:
            dropped.add(other)
    kept = {path: given for path, given in low.settings.items() if path[0] not in dropped}
    for switch, values, idle in SWITCHES:
        given = high.settings.get(switch)
        if given is not None and str(given.value).lower() in values:
            kept = {path: value for path, value in kept.items() if path not in idle}
    return Layer(
        choices={**{g: c for g, c in low.choices.items() if g not in dropped}, **high.choices},
        settings={**kept, **high.settings},
        removed=high.removed,
        signs=high.signs,
    )


def read_settings(layer: Layer) -> dict[str, Any]:
    """Return the settings that are no parts, nested and read by their types. Raises ConfigError for a wrong type."""
    tree: dict[str, Any] = {}
    for path, given in layer.settings.items():
        if path[0] in GROUPS:
            continue
        part: type[Part] = Settings
        inside = tree
        for name in path[:-1]:
            part = section(part, name) or part
            inside = inside.setdefault(name, {})
        info = part.model_fields[path[-1]]
        annotation: Any = info.annotation
        for mark in info.metadata:
            annotation = Annotated[annotation, mark]
        inside[path[-1]] = read_as(annotation, given, ".".join(path))
    if tree.get("steps") is not None and tree.get("epochs") is not None:
        raise ConfigError(f"steps={tree['steps']} and epochs={tree['epochs']} are both set; a run has one length")
    return tree
