"""`rlcore diff A B`: two algorithms side by side, and with `--on RUN` their gradients on the same rollouts."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rlcore.cli.info import formula_of, summary_of, written
from rlcore.cli.shared import run_folder
from rlcore.errors import ConfigError

if TYPE_CHECKING:
    from rlcore.algorithm import Algorithm
    from rlcore.config.specs import Spec as Tree
    from rlcore.graph import Plan

Rows = list[tuple[str, str, str]]
WIDTH = 44
"""Characters of a cell before it is wrapped; a longer word stays whole, to be searched for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    for name in ("one", "other"):
        parser.add_argument(name, help="a registered algorithm, such as grpo or verl-0.9/grpo, or path/to/file.py:name")
    parser.add_argument("--on", metavar="RUN", help="compare their gradients on the rollouts that this run kept")
    parser.add_argument("--step", type=int, default=0, help="with --on: the step of the run (default 0, its first)")
    parser.add_argument("--all", action="store_true", help="show what is alike, too")


def run(args: argparse.Namespace) -> int:
    """Print both, section by section."""
    if args.on is None and args.step:
        raise ConfigError(f"--step {args.step} has no effect without --on RUN")
    one, other = Side(args.one), Side(args.other)
    head = (" ", args.one, args.other)
    for title, rows in (
        ("parts and their options", joined(one.parts, other.parts)),
        ("defaults of the algorithm's own options", joined(one.defaults, other.defaults)),
        ("graph", graph_rows(one.plan, other.plan)),
        ("laws declared broken", joined(one.broken, other.broken)),
    ):
        shown = rows if args.all else [row for row in rows if row[1] != row[2]]
        print(f"{title}:{'' if shown else ' no difference'}")
        print_table(head, shown)
    print("formulas:")
    for name, text in formulas(one, other):
        print(textwrap.indent(f"{name}\n{textwrap.indent(text, '  ')}", "  "))
    if args.on is not None:
        print_gradients(args)
    return 0


@dataclass
class Side:
    """One of the two: what is known of it before a model loads."""

    name: str
    tree: dict[str, Tree] = field(default_factory=dict)

    @cached_property
    def factory(self) -> Any:
        """What makes the algorithm. Raises UnknownNameError with the nearest name."""
        from rlcore.registry import get

        return get("algorithm", self.name)

    @cached_property
    def algorithm(self) -> Algorithm:
        """The algorithm with its defaults. Raises ConfigError for another shape of training."""
        from rlcore.algorithm import Algorithm

        made = self.factory()
        if not isinstance(made, Algorithm):
            raise ConfigError(
                f"{self.name} makes a {type(made).__name__}; only algorithms made of parts can be compared"
            )
        return made

    @cached_property
    def plan(self) -> Plan:
        """The resolved graph."""
        from rlcore.registry import registry

        return self.algorithm.graph(table=registry().columns).resolve()

    @cached_property
    def living(self) -> dict[str, tuple[Any, ...]]:
        """The parts by group; a KL without a coefficient does not live."""
        from rlcore.config.specs import SLOTS

        found: dict[str, tuple[Any, ...]] = {}
        for group in SLOTS:
            part = getattr(self.algorithm, group)
            found[group] = part if isinstance(part, tuple) else () if part is None else (part,)
        if not self.algorithm.kl_coefficient:
            found["kl"] = ()
        return found

    @property
    def parts(self) -> dict[str, str]:
        """Names of parts, their options, and the algorithm's numbers, by dotted key."""
        from rlcore.component import name_of
        from rlcore.config.bind import number_fields
        from rlcore.config.specs import shown_name, spec_of
        from rlcore.kinds import GROUPS

        found: dict[str, str] = {}
        for group, parts in self.living.items():
            nodes = [spec_of(GROUPS[group][0].name, part) for part in parts]
            found[group] = ", ".join(map(shown_name, nodes))
            for node in nodes:
                found |= flat(f"{group}.{shown_name(node)}" if len(nodes) > 1 else group, node)
        found["terms"] = ", ".join(term.name or name_of(term.loss) for term in self.algorithm.terms)
        found["extra nodes"] = ", ".join(node.name for node, _, _ in self.algorithm.extra)
        found |= {name: written(getattr(self.algorithm, name)) for name in number_fields(type(self.algorithm))}
        return found

    @property
    def defaults(self) -> dict[str, str]:
        """The factory's options."""
        from rlcore.component import options

        return {option.name: written(option.default) for option in options(self.factory).values()}

    @property
    def broken(self) -> dict[str, str]:
        """Laws that its package declares broken, each with the reason; none of what nobody registered."""
        from rlcore.registry import registry
        from rlcore.testing.kit import declared

        if ".py:" in self.name:
            return {}
        return dict(declared(registry().entry("algorithm", self.name)))


def flat(key: str, node: Tree) -> Iterator[tuple[str, str]]:
    """Yield the options of a part, those of components among them too."""
    for name, value in node.items():
        if isinstance(value, dict) and "name" in value:
            yield f"{key}.{name}", str(value["name"])
            yield from flat(f"{key}.{name}", value)
        elif name != "name":
            yield f"{key}.{name}", written(value)


def joined(one: Mapping[str, str], other: Mapping[str, str]) -> Rows:
    """Return rows (key, one, other) of two mappings; what one of them has not got is a dash."""
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
            node.name: f"{' '.join(plan.reads_of(node))} -> {' '.join(sorted(plan.wanted[node.name])) or 'rows'}"
            for node in plan.nodes
        }

    loads = ("loads", ", ".join(one.roles), ", ".join(other.roles))
    return [loads, *joined(nodes(one), nodes(other))]


def formulas(one: Side, other: Side) -> Iterator[tuple[str, str]]:
    """Yield the formulas of both algorithms, then those of the parts in which they differ, each once.

    A part that writes none down says in a sentence what it gives.
    """
    from rlcore.component import name_of, source_of

    for side in (one, other):
        if text := formula_of(side.factory):
            yield side.name, text
    seen: set[Any] = set()
    for group, parts in one.living.items():
        theirs = other.living[group]
        if [source_of(part) for part in parts] == [source_of(part) for part in theirs]:
            continue
        for part in (*parts, *theirs):
            if source_of(part) not in seen and (text := formula_of(part) or summary_of(part)):
                seen.add(source_of(part))
                yield f"{group} {name_of(part)}", text


def print_table(head: tuple[str, str, str], rows: Rows) -> None:
    """Print rows under a head, long cells wrapped."""
    if not rows:
        return
    wrap = textwrap.TextWrapper(WIDTH, break_long_words=False, break_on_hyphens=False).wrap
    cells = [tuple(wrap(cell) or [""] for cell in row) for row in (head, *rows)]
    width = [max(len(line) for row in cells for line in row[i]) for i in range(3)]
    for row in cells:
        for i in range(max(map(len, row))):
            line = [(cell[i] if i < len(cell) else "").ljust(width[k]) for k, cell in enumerate(row)]
            print(f"  {'   '.join(line)}".rstrip())


def print_gradients(args: argparse.Namespace) -> None:
    """Print norm and cosine of both gradients on the rollouts that a run kept of a step."""
    from rlcore.run.gradients import cosine, gradient_on

    folder = run_folder(args.on)
    one, other = (gradient_on(folder, name, step=args.step) for name in (args.one, args.other))
    print(f"gradients on the rollouts of step {args.step} of {folder}, before any clipping:")
    rows = [("norm", f"{one.norm:.6g}", f"{other.norm:.6g}")]
    rows += [("rows trained on", str(one.rows), str(other.rows)), ("tokens", str(one.tokens), str(other.tokens))]
    print_table((" ", args.one, args.other), rows)
    print(f"  cosine {cosine(one, other):.6f}")
