"""What was said, bound against kinds and signatures: an experiment, or everything that is wrong with it at once."""

from __future__ import annotations

import copy
import dataclasses
import functools
import typing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from rlcore.coercion import coerce, is_mapping
from rlcore.component import Component, bind, options
from rlcore.config.keys import unknown_key, unknown_keys, wrong_sign
from rlcore.config.overrides import canonical
from rlcore.config.paths import anchored
from rlcore.config.specs import (
    Spec,
    Specs,
    Texts,
    build,
    configuration_groups,
    default_name,
    find_component,
    is_plain,
    named_spec,
    remove_key,
    set_option,
    shown_name,
    specs_of,
)
from rlcore.config.unused_settings import check_unused
from rlcore.errors import ComponentError, ConfigError, RLCoreError, nearest
from rlcore.experiment import Experiment, settings_of
from rlcore.kinds import GROUPS, SLOTS
from rlcore.protocols import GraphSource, missing_members
from rlcore.registry import names, registry
from rlcore.settings import ALONE, Role, Section, Settings, sections

if TYPE_CHECKING:
    from rlcore.config.compose import ComposedRequest


@dataclass
class Factory:
    """A named algorithm's factory."""

    name: str
    make: Component

    @functools.cached_property
    def options(self) -> dict[str, Any]:
        """The factory's options by name."""
        return options(self.make)

    @functools.cached_property
    def numbers(self) -> dict[str, type]:
        """Numbers and switches of what it makes: they may be set, if the factory has an option of them or not."""
        return number_fields(type(self.call({})))

    def read(self, values: Mapping[str, Any], texts: Texts) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
        """Return what `algorithm.*` says: the factory's options, numbers it has no option for, and what is wrong."""
        known = {**self.numbers, **{name: option.annotation for name, option in self.options.items()}}
        given: dict[str, Any] = {}
        further: dict[str, Any] = {}
        wrong = []
        for name, value in values.items():
            key = f"algorithm.{name}"
            text, problem = texts.get(key, (None, ""))
            if name in known:
                try:
                    fitted = coerce(known[name], value, key, text=text, problem=problem)
                    (given if name in self.options else further)[name] = fitted
                except ConfigError as error:
                    wrong.append(str(error))
                continue
            listed = list(dict.fromkeys((*self.options, *self.numbers)))
            hint = f" The component is chosen by {name}=NAME." if name in SLOTS else nearest(name, listed)
            wrong.append(f"{key}: algorithm {self.name!r} has no option {name!r}; options: {', '.join(listed)}.{hint}")
        return given, further, wrong

    def call(self, given: Mapping[str, Any]) -> Any:
        """Return the algorithm of some options. Raises ComponentError for a factory that makes something else."""
        try:
            algorithm = bind(self.make, **given)()
        except ConfigError:
            # A group of one may be too small for the factory's own estimator and fit the one that replaces it; it is
            # put in together with that one.
            if "group_size" not in given:
                raise
            algorithm = bind(self.make, **{k: v for k, v in given.items() if k != "group_size"})()
        if missing := missing_members(algorithm, GraphSource):
            raise ComponentError(
                f"algorithm={self.name} returned {type(algorithm).__name__}, which no run can train: it lacks "
                f"{', '.join(missing)}"
            )
        return algorithm

    def call_or_none(self, given: Mapping[str, Any]) -> Any:
        """Return the algorithm of some options; None where the factory refuses them together."""
        try:
            return self.call(given)
        except ConfigError:
            return None


def grades(algorithm: GraphSource) -> bool:
    """Tell whether a step of an algorithm grades what a policy drew."""
    graph = algorithm.graph(reward=None, environment=None, table=registry().columns)
    return any(node.view == "grade" for node in graph.resolve().nodes)


def number_fields(algorithm: type) -> dict[str, type]:
    """Return the numbers and switches among an algorithm's fields."""
    if not dataclasses.is_dataclass(algorithm):
        return {}
    hints = typing.get_type_hints(algorithm)
    return {f.name: hints[f.name] for f in dataclasses.fields(algorithm) if hints[f.name] in (int, float, bool)}


def changes(first: Any, second: Any) -> set[str]:
    """Return the fields in which two algorithms of one factory differ."""
    a, b = specs_of(first), specs_of(second)
    slots = {slot for slot in a if a[slot] != b.get(slot)}
    if not dataclasses.is_dataclass(first):
        return slots
    rest = {f.name for f in dataclasses.fields(first)} - set(a) - {"name"}
    return slots | {name for name in rest if getattr(first, name) != getattr(second, name)}


def bind_request(request: ComposedRequest) -> Experiment:
    """Return the checked experiment of what was said. Raises what `rlcore.config.load` raises."""
    binding = Binding(request)
    binding.choose_algorithm()
    binding.choose_services()
    binding.set_options()
    return binding.finish()


class Binding:
    """A request on its way to an experiment.

    Attributes:
        config: what `config.yaml` keeps of each group: choices, and the options that somebody set.
        specs: the components by group, in the end with every option.
    """

    def __init__(self, request: ComposedRequest) -> None:
        self.request, self.tree, self.texts = request, request.tree, request.texts
        self.typed = tuple(canonical(override.key) for override in request.line if override.sign != "~")
        self.choices: dict[str, Any] = {}
        self.options: dict[str, dict[str, Any]] = {}
        for key, value in self.tree.items():
            if key not in GROUPS:
                continue
            if not isinstance(value, Mapping) or "name" in value:
                self.choices[key] = value["name"] if isinstance(value, Mapping) else value
            if isinstance(value, Mapping):
                self.options[key] = {name: each for name, each in value.items() if name != "name"}
        model = self.tree.get("model")
        needed = {"model": model.get("source") if isinstance(model, Mapping) else model}
        needed["data"] = self.choices.get("data")
        if self.choices.get("reward") or self.options.get("reward") or self._grades():
            needed["reward"] = self.choices.get("reward")
        check_complete(needed, {key: self.options.get(key, {}) for key in needed.keys() - self.choices.keys()})
        self.config: dict[str, Any] = {}
        self.specs: Specs = {}

    def _grades(self) -> bool:
        """Tell whether the algorithm needs a reward: one whose rows come from the data set does not."""
        try:
            (name,) = self._names("algorithm")
            return grades(Factory(name, find_component("algorithm", name, "algorithm")).call({}))
        except (RLCoreError, ValueError):
            return True  # what is wrong with the algorithm is said later

    def choose_algorithm(self) -> None:
        """Call the algorithm's factory and decide what stands in its slots."""
        (name,) = self._names("algorithm")
        self.factory = Factory(name, find_component("algorithm", name, "algorithm"))
        self.given, self.numbers, self.wrong = self.factory.read(self.options.get("algorithm", {}), self.texts)
        self.base = self.factory.call(self.given)
        self.own = specs_of(self.base)
        for slot in SLOTS:
            if slot in self.tree and slot not in self.own:
                raise ConfigError(
                    f"{slot}: algorithm {name!r} has no slot {slot}; it has {', '.join(self.own) or 'none'}"
                )
            if slot in self.choices:
                self._choose(slot)
        self.replaced = {
            slot
            for slot, specs in self.specs.items()
            if [s["name"] for s in specs] != [s["name"] for s in self.own[slot]]
        }
        kept = self._effective()
        if kept != self.given:
            self.given, self.base = kept, self.factory.call(kept)
            self.own = specs_of(self.base)
        self.specs = {**copy.deepcopy(self.own), **self.specs}

    def choose_services(self) -> None:
        """Decide on everything that is chosen beside the algorithm."""
        for key, (_, group) in configuration_groups().items():
            if not group.slot and key != "algorithm":
                self._choose(key)

    def _names(self, key: str) -> list[Any]:
        """Return what was chosen in a group, else its default. Raises ConfigError for too many or too few."""
        kind, group = GROUPS[key]
        value = self.choices[key] if key in self.choices else default_name(kind.name, group.default)
        several = value if isinstance(value, list) else [] if value is None else [value]
        if not group.slot and not group.many and len(several) != 1 and not (group.optional and not several):
            text = self.texts.get(key, ("null" if value is None else f"[{', '.join(map(str, several))}]", ""))[0]
            hint = several_of(key) if several else ""
            raise ConfigError(f"{key}={text}: a run has exactly one {key.replace('_', ' ')}{hint}")
        if not several and not group.optional:
            raise ConfigError(f"{key}=null: an algorithm always has one; known: {', '.join(names(kind.name))}")
        if len(several) > 1 and not group.many:
            raise ConfigError(
                f"{key}=[{', '.join(map(str, several))}]: expected one name, found a list of {len(several)}"
            )
        return several

    def _choose(self, key: str) -> None:
        """Put the specs of what was chosen in a group into `specs`, and what a file keeps of them into `config`."""
        chosen = self._names(key)
        self.specs[key] = specs = [named_spec(GROUPS[key][0].name, each, key, self.texts) for each in chosen]
        self.config[key] = [
            {"name": spec["name"], **{option: spec[option] for option in each if option != "name"}}
            if isinstance(each, Mapping)
            else {"name": spec["name"]}
            for each, spec in zip(chosen, specs, strict=True)
        ]

    def _effective(self) -> dict[str, Any]:
        """Return the factory's options without those of a file that only feed what the command line has replaced.

        Raises ConfigError for an option that whoever set it replaced at once, or set again: it has no effect.
        """
        kept = dict(self.given)
        for name, value in self.given.items():
            if name in self.factory.numbers:
                continue
            without = {k: v for k, v in kept.items() if k != name}
            before = self.base if kept == self.given else self.factory.call(kept)
            other = self.factory.call_or_none(without)
            if other is None:  # the others do not do without it
                continue
            changed = changes(before, other)
            fed = changed & set(SLOTS)
            if not fed or not changed <= self.replaced:
                continue
            slot = sorted(fed)[0]
            if f"algorithm.{name}" not in self.typed and any(slot in self.typed for slot in fed):
                kept = without
                continue
            raise ConfigError(
                f"algorithm.{name}={value} has no effect: it is an option of the {slot} that {self.factory.name} comes "
                f"with, and {slot}={self._shown(slot)} replaces that one"
            )
        return kept

    # -- options

    def set_options(self) -> None:
        """Put every option into its spec. Raises ConfigError for all keys and options that may not be set, at once."""
        known = {"algorithm": [*self.factory.options, *self.factory.numbers]}
        opened: list[str] = []
        for key, specs in self.specs.items():
            own = [o for s in specs for o in options(find_component(GROUPS[key][0].name, s["name"], key)).values()]
            known[key] = [option.name for option in own]
            opened += [f"{key}.{option.name}" for option in own if is_mapping(option.annotation)]
        wrong = unknown_keys(self.tree, known, self.typed)
        added = [override.key for override in self.request.line if override.sign == "+"]
        wrong += [] if wrong else wrong_sign(added, known, opened)
        wrong += self.wrong
        for group in self.specs:
            values: dict[str, Any] = {}
            for name, value in self.options.get(group, {}).items():
                try:
                    values |= self._set(group, name, value)
                except ConfigError as error:
                    wrong.append(f"{error}{self._option_of_replaced(group, name)}")
            chosen = self.config.get(group, [{}])
            if len(chosen) == 1:
                self.config[group] = {**chosen[0], **values}
            elif values or not chosen:
                self.config[group] = {"name": chosen or None, **values}
        self.config = {group: kept for group, kept in self.config.items() if kept}
        removed = [override.key for override in self.request.line if override.sign == "~"]
        for key in (key for key in removed if key.partition(".")[0] in GROUPS):
            try:
                self._remove(key, known)
            except ConfigError as error:
                wrong.append(str(error))
        if wrong:
            raise ConfigError(wrong[0] if len(wrong) == 1 else "\n".join([f"{len(wrong)} settings are wrong:", *wrong]))

    def _set(self, group: str, name: str, value: Any) -> dict[str, Any]:
        """Set an option where it belongs; return it as it was read, in the same place."""
        spec, inside = self._member(group, name, value)
        kind = GROUPS[group][0].name
        if not inside:
            set_option(kind, spec, name, value, f"{group}.{name}", self.texts, self.typed)
            return {name: copy.deepcopy(spec[name])}
        for option, one in value.items():
            set_option(kind, spec, option, one, f"{group}.{name}.{option}", self.texts, self.typed)
        return {name: {option: copy.deepcopy(spec[option]) for option in value}}

    def _member(self, group: str, name: str, value: Any) -> tuple[Spec, bool]:
        """Return the component of a group that an option belongs to, and whether its options stand inside the value.

        In a list the option alone is enough where one component has it; else a name or a place stands before it.
        """
        specs, key, kind = self.specs[group], f"{group}.{name}", GROUPS[group][0].name
        if not specs:
            raise ConfigError(f"{key}: there is no {group}; choose one first: {group}=NAME")
        if len(specs) == 1 and name not in ("0", specs[0]["name"]):
            return specs[0], False
        if isinstance(value, Mapping) and name.isdecimal() and int(name) < len(specs):
            return specs[int(name)], True
        named = [spec for spec in specs if shown_name(spec).rpartition(":")[2] == name]
        if named and isinstance(value, Mapping):
            return named[0], True
        known = [(o, s) for s in specs for o in options(find_component(kind, s["name"], key))]
        owners = [spec for option, spec in known if option == name]
        if len(owners) > 1:
            listed = " or ".join(f"{group}.{shown_name(spec)}.{name}" for spec in owners)
            raise ConfigError(f"{key}: {len(owners)} components of {group} have this option; write {listed}")
        if not owners:
            listed = ", ".join(f"{option} (of {shown_name(spec)})" for option, spec in known) or "none"
            raise ConfigError(
                f"{key}: no component of {group} has the option {name!r}; options: {listed}."
                f"{nearest(name, [option for option, _ in known])}"
            )
        return owners[0], False

    def _remove(self, key: str, known: Mapping[str, list[str]]) -> None:
        group, _, rest = key.partition(".")
        path = tuple(rest.split("."))
        specs = self.specs.get(group, [])
        owner = [s for s in specs if path[0] in s] or specs[:1]
        if group == "algorithm" or not owner:
            raise ConfigError(f"~{unknown_key(tuple(key.split('.')), known)}")
        remove_key(GROUPS[group][0].name, owner[0], path, key)
        self.config.setdefault(group, {})[path[0]] = copy.deepcopy(owner[0][path[0]])

    def _option_of_replaced(self, group: str, option: str) -> str:
        """Return the end of a message about an option of the component that a choice has replaced."""
        if group not in self.replaced:
            return ""
        for spec in self.own[group]:
            if option in spec and option != "name":
                return f" ({option!r} is an option of {shown_name(spec)}, which {group}={self._shown(group)} replaces)"
        return ""

    def _shown(self, slot: str) -> str:
        return ", ".join(map(shown_name, self.specs[slot])) or "null"

    # -- the whole

    def finish(self) -> Experiment:
        """Build every component and check the whole."""
        services: dict[str, Any] = {}
        fields: dict[str, Any] = dict(self.numbers)
        if "group_size" in self.given and "group_size" in self.factory.numbers:
            fields["group_size"] = self.given["group_size"]
        for key, specs in self.specs.items():
            kind, group = GROUPS[key]
            if specs == self.own.get(key):
                continue
            built = tuple(build(kind.name, spec, key) for spec in specs)
            # Where a slot holds a tuple, whatever the number, one component is a tuple too.
            tuples = group.many and (not group.slot or len(built) > 1 or self._holds_tuple(key))
            (fields if group.slot else services)[key] = built if tuples else built[0] if built else None
        data = {k: v for k, v in self.specs["data"][0].items() if k != "name" and v not in ("", None)}
        checked = settings_of({**read_settings(self.tree, self.texts), "data": data})
        dumped = checked.model_dump(mode="json", exclude={"data"})
        # A file that resumes would go on with this run for ever, where it is meant to say how to begin another.
        dumped["resume"] = None
        algorithm = {"name": self.factory.name, **self.given, **self.numbers}
        experiment = Experiment(
            settings=checked,
            algorithm=replace(self.base, **fields) if fields else self.base,
            services=services,
            config=anchored({**dumped, "algorithm": algorithm, **self.config}),
            resolved=anchored({**dumped, **self._resolved()}),
        )
        check_unused(experiment, self.specs, self.base, self.typed)
        self._check_idle_options(experiment.idle_slots)
        return experiment

    def _holds_tuple(self, slot: str) -> bool:
        return typing.get_origin(typing.get_type_hints(type(self.base))[slot]) is tuple

    def _check_idle_options(self, idle: set[str]) -> None:
        """Raise ConfigError for an option of the algorithm that changes nothing, or only what nothing reads."""
        for name, value in self.given.items():
            # A group too small for the factory's own estimator is put in beside its options.
            if value == self.factory.options[name].default or name == "group_size":
                continue
            without = self.factory.call_or_none({k: v for k, v in self.given.items() if k != name})
            if without is None:
                continue
            changed, reason = changes(self.base, without), ""
            if not changed:
                reason = f"{self.factory.name} makes no use of it"
            elif changed <= idle:
                reason = f"nothing reads what {', '.join(sorted(changed))} makes"
            elif changed <= set(SLOTS) and f"algorithm.{name}" in self.typed:
                # Every trace of it in the components was set to something else beside it.
                others = specs_of(without)
                traces = [
                    (f"{slot}.{option}", own[option], now.get(option))
                    for slot in sorted(changed)
                    for own, other, now in zip(self.own[slot], others[slot], self.specs[slot], strict=False)
                    for option in own
                    if own[option] != other.get(option)
                ]
                if traces and all(wanted != now for _, wanted, now in traces):
                    reason = f"{traces[0][0]}={traces[0][2]} is set beside it"
            if reason:
                raise ConfigError(f"algorithm.{name}={value} has no effect: {reason}")

    def _resolved(self) -> dict[str, Any]:
        """Return the components as a file holds them: with every option, so that a later default changes nothing."""
        values = {name: self.given.get(name, option.default) for name, option in self.factory.options.items()}
        further = {name: getattr(self.base, name) for name in self.factory.numbers if name not in values}
        tree: dict[str, Any] = {"algorithm": {"name": self.factory.name, **values, **further, **self.numbers}}
        for key, specs in self.specs.items():
            if is_plain(specs):  # what only the factory can make is left to it
                tree[key] = None if not specs else specs[0] if len(specs) == 1 else specs
        return tree


def check_complete(needed: Mapping[str, Any], options: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise ConfigError for a missing model, data or reward, naming all that is missing with what may stand there.

    `options` are those that were set under keys without a choice.
    """
    missing = [key for key, value in needed.items() if value in (None, "")]
    if not missing:
        return
    examples = {
        "model": f"a folder, hf:ORG/NAME, modelscope:ORG/NAME, or one of {', '.join(names('model'))}",
        "data": f"one of {', '.join(names('dataset')) or 'none'}, or path/to/file.py:function",
        "reward": f"one of {', '.join(names('reward')) or 'none'}, or path/to/file.py:function",
    }
    lines = [f"{key}= is missing: give {examples[key]}" for key in missing]
    lines += [
        f"{key} has {', '.join(options[key])} and no name{several_of(key)}" for key in missing if options.get(key)
    ]
    if missing != ["reward"]:
        lines.append("The default run is `rlcore train` alone: it comes only without a file, model= and data=")
    raise ConfigError("\n".join(lines))


def several_of(group: str) -> str:
    """Return the end of a message about several components where a run has one: how they become one, if they can."""
    if group != "reward" or "weighted" not in names("reward"):
        return ""
    return "; to combine several: reward={name: weighted, components: {acc: path/to/file.py:acc, m: math}}"


def _read_section(section: type[Section], place: str, values: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    """Return settings of one section, read by their types; `place` is its key, "" for the settings of no section."""
    read = {}
    for name, value in values.items():
        key = f"{place}.{name}" if place else name
        field = section.model_fields[name]
        annotation: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        text, problem = texts.get(key, (None, ""))
        shown = place if ALONE.get(place) == name else key
        read[name] = coerce(annotation, value, shown, text=text, problem=problem)
    return read


def read_settings(tree: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    """Return the settings that are no components, nested and read by their types. Raises ConfigError."""
    result: dict[str, Any] = {}
    for key, value in tree.items():
        if key in GROUPS:
            continue
        section = sections().get(key)
        if key == "roles":
            result[key] = {role: _read_section(Role, f"roles.{role}", own, texts) for role, own in value.items()}
        elif section is not None:
            result[key] = _read_section(section, key, value, texts)
        else:
            result |= _read_section(Settings, "", {key: value}, texts)
    if result.get("steps") is not None and result.get("epochs") is not None:
        raise ConfigError(f"steps={result['steps']} and epochs={result['epochs']} are both set; a run has one length")
    return result
