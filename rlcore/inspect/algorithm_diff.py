"""Two algorithms side by side: their components and options, graphs, broken laws and formulas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rlcore.algorithm import Algorithm
from rlcore.component import name_of, options, source_of
from rlcore.config.bind import number_fields
from rlcore.config.specs import Spec, shown_name, spec_of
from rlcore.errors import ConfigError
from rlcore.graph import Plan
from rlcore.inspect.descriptions import formula_of, summary_of, value_text
from rlcore.kinds import GROUPS, SLOTS
from rlcore.registry import get, registry
from rlcore.testing.kit import declared_failures

Rows = list[tuple[str, str, str]]
"""A key, and what each of the two has there."""


@dataclass
class ComparedAlgorithm:
    """One of two algorithms that are compared: what is known of it before a model loads."""

    name: str

    @cached_property
    def factory(self) -> Any:
        """Return the factory of the algorithm. Raises UnknownNameError with the nearest name."""
        return get("algorithm", self.name)

    @cached_property
    def algorithm(self) -> Algorithm:
        """Return the algorithm with its defaults. Raises ConfigError if the factory makes something else."""
        algorithm = self.factory()
        if not isinstance(algorithm, Algorithm):
            raise ConfigError(
                f"{self.name} makes {type(algorithm).__name__}; only algorithms made of components can be compared"
            )
        return algorithm

    @cached_property
    def plan(self) -> Plan:
        """Return the resolved graph."""
        return self.algorithm.graph(table=registry().columns).resolve()

    @cached_property
    def components(self) -> dict[str, tuple[Any, ...]]:
        """Return the components by slot; a KL without a coefficient is none."""
        found: dict[str, tuple[Any, ...]] = {}
        for group in SLOTS:
            component = getattr(self.algorithm, group)
            found[group] = component if isinstance(component, tuple) else () if component is None else (component,)
        if not self.algorithm.kl_coefficient:
            found["kl"] = ()
        return found

    @property
    def settings(self) -> dict[str, str]:
        """Return the names of components, their options, and the algorithm's numbers, by dotted key."""
        found: dict[str, str] = {}
        for group, components in self.components.items():
            specs = [spec_of(GROUPS[group][0].name, component) for component in components]
            found[group] = ", ".join(map(shown_name, specs))
            for spec in specs:
                found |= flat_options(f"{group}.{shown_name(spec)}" if len(specs) > 1 else group, spec)
        found["terms"] = ", ".join(term.name or name_of(term.loss) for term in self.algorithm.terms)
        found["extra nodes"] = ", ".join(node.name for node, _, _ in self.algorithm.extra)
        found |= {name: value_text(getattr(self.algorithm, name)) for name in number_fields(type(self.algorithm))}
        return found

    @property
    def defaults(self) -> dict[str, str]:
        """Return the factory's options."""
        return {option.name: value_text(option.default) for option in options(self.factory).values()}

    @property
    def broken(self) -> dict[str, str]:
        """Return the laws that its package declares broken, each with the reason; none for a file's algorithm."""
        if ".py:" in self.name:
            return {}
        return dict(declared_failures(registry().entry("algorithm", self.name)))


def flat_options(key: str, node: Spec) -> Iterator[tuple[str, str]]:
    """Yield the options of a component, and those of components among them, by dotted key."""
    for name, value in node.items():
        if isinstance(value, dict) and "name" in value:
            yield f"{key}.{name}", str(value["name"])
            yield from flat_options(f"{key}.{name}", value)
        elif name != "name":
            yield f"{key}.{name}", value_text(value)


def paired_rows(one: Mapping[str, str], other: Mapping[str, str]) -> Rows:
    """Return rows (key, one, other) of two mappings; what one of them lacks is a dash."""
    keys, place = list(one), 0
    for key in other:
        # What only the other has stands behind what stands before it there.
        if key not in one:
            keys.insert(place, key)
        place = keys.index(key) + 1
    return [(key, one.get(key) or "-", other.get(key) or "-") for key in keys]


def graph_rows(one: Plan, other: Plan) -> Rows:
    """Return which models load, and what each node reads and writes."""

    def nodes(plan: Plan) -> dict[str, str]:
        return {
            node.name: f"{' '.join(plan.available_reads(node))} -> {' '.join(sorted(plan.wanted[node.name])) or 'rows'}"
            for node in plan.nodes
        }

    loads = ("loads", ", ".join(one.roles), ", ".join(other.roles))
    return [loads, *paired_rows(nodes(one), nodes(other))]


def comparison(one: ComparedAlgorithm, other: ComparedAlgorithm) -> dict[str, Rows]:
    """Return the rows of both by section, what is alike among them."""
    return {
        "components and their options": paired_rows(one.settings, other.settings),
        "defaults of the algorithm's own options": paired_rows(one.defaults, other.defaults),
        "graph": graph_rows(one.plan, other.plan),
        "laws declared broken": paired_rows(one.broken, other.broken),
    }


def formulas(one: ComparedAlgorithm, other: ComparedAlgorithm) -> Iterator[tuple[str, str]]:
    """Yield the formulas of both algorithms, then those of the components in which they differ, each once.

    A component without a formula gives its summary.
    """
    for side in (one, other):
        if text := formula_of(side.factory):
            yield side.name, text
    seen: set[Any] = set()
    for group, components in one.components.items():
        theirs = other.components[group]
        if [source_of(component) for component in components] == [source_of(component) for component in theirs]:
            continue
        for component in (*components, *theirs):
            if source_of(component) not in seen and (text := formula_of(component) or summary_of(component)):
                seen.add(source_of(component))
                yield f"{group} {name_of(component)}", text
