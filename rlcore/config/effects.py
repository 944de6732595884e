"""What somebody set and the resolved graph does not use: an error on every surface, before a run and not after it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rlcore.component import name_of, options, source_of
from rlcore.errors import ConfigError
from rlcore.experiment import Experiment, called_components, components_in
from rlcore.graph import Graph, Node
from rlcore.kinds import GROUPS
from rlcore.registry import names
from rlcore.settings import WarmStart


def check_effects(experiment: Experiment, usual: Any = None, line: Collection[str] = ()) -> None:
    """Raise ConfigError for what was set and changes nothing, and for settings that exclude each other.

    `usual` is the algorithm as its factory makes it: what comes with it was not set by anybody. `line` are keys of a
    command line, which were set whatever they say.
    """
    # Before what looks at single nodes: of a list it would name the first component alone.
    _check_lists(experiment, usual)
    _check_modes(experiment, usual)
    _check_kl(experiment, usual, line)
    _check_slots(experiment, usual)
    _check_critic(experiment)
    _check_settings(experiment, line)


def _like(one: Any, other: Any) -> bool:
    """Tell whether two components are the same function with the same options."""
    if one is other:
        return True
    if name_of(one) != name_of(other):
        return False
    a, b = options(one), options(other)
    return a.keys() == b.keys() and all(a[n].default == b[n].default or _both(a[n].default, b[n].default) for n in a)


def _both(one: Any, other: Any) -> bool:
    return callable(one) and callable(other) and _like(one, other)


def _was_set(algorithm: Any, usual: Any, slot: str) -> bool:
    """Tell whether a slot holds what its algorithm does not come with."""
    now, before = components_in(algorithm, slot), components_in(usual, slot)
    return bool(now) and not (len(now) == len(before) and all(map(_like, now, before)))


def _check_slots(experiment: Experiment, usual: Any) -> None:
    """Raise ConfigError for a component whose node nothing reads."""
    algorithm, plan = experiment.algorithm, experiment.graph.resolve()
    for slot in sorted(experiment.idle_slots):
        if _was_set(algorithm, usual, slot):
            several = set(map(id, components_in(algorithm, slot)))
            nodes = [n for n in experiment.graph.nodes if several & set(map(id, called_components(n)))]
            written = sorted({column for node in nodes for column in node.writes})
            makes = f"it makes {', '.join(written)}, and nothing" if written else "nothing"
            raise ConfigError(
                f"{slot}={name_of(components_in(algorithm, slot)[0])} has no effect: {makes} in {algorithm.name} reads "
                f"that (pruned: {', '.join(plan.pruned)}). Remove it, or choose components that read it"
            )
    value = getattr(algorithm, "kl_in_reward_coefficient", 0)
    if value and "kl_in_reward" in experiment.idle_slots and value != getattr(usual, "kl_in_reward_coefficient", 0):
        raise ConfigError(
            f"algorithm.kl_in_reward_coefficient={value} has no effect: nothing in {algorithm.name} reads kl_in_reward"
        )


def _check_modes(experiment: Experiment, usual: Any) -> None:
    """Raise ConfigError for an option that counts only beside another value of another option."""
    for slot in (key for key, (_, group) in GROUPS.items() if group.slot):
        comes = components_in(usual, slot)
        for part in components_in(experiment.algorithm, slot):
            known = options(part)
            plain = options(source_of(part))
            like = next((options(one) for one in comes if source_of(one) is source_of(part)), {})
            for name, option in known.items():
                mark, value = option.only_with, option.default
                if mark is None or mark.holds(known[mark.option].default):
                    continue
                # What the component or the algorithm comes with, as every run's own file spells it out.
                if value == plain[name].default or (name in like and value == like[name].default):
                    continue
                raise ConfigError(
                    f"{slot}.{name}={value} has no effect in {name_of(part)} with "
                    f"{mark.option}={_written(known[mark.option].default)}: it counts only where {mark}"
                )


def _written(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _check_critic(experiment: Experiment) -> None:
    """Raise ConfigError for a critic that nothing trains, and for settings of a critic that is not there."""
    plan = experiment.graph.resolve()
    if "critic" in plan.roles and not any(node.writes_column("weights.critic") for node in plan.nodes):
        readers = ", ".join(n.name for n in plan.nodes if "value" in plan.available_reads(n))
        raise ConfigError(
            f"{readers} reads 'value', which a critic gives, but nothing would train the critic; set value_loss "
            f"(one of {', '.join(n for n in names('loss') if 'value' in n) or ', '.join(names('loss'))})"
        )
    if "critic" not in plan.roles:
        warmup = getattr(experiment.algorithm, "critic_warmup", 0)
        if warmup:
            raise ConfigError(f"algorithm.critic_warmup={warmup} has no effect: this algorithm has no critic")
        if getattr(experiment.settings.training, "critic_learning_rate", None) is not None:
            raise ConfigError("training.critic_learning_rate has no effect: this algorithm has no critic")


def _check_lists(experiment: Experiment, usual: Any) -> None:
    """Raise ConfigError for a step of a list whose result the next replaces unread, or that has nothing to compare."""
    algorithm, graph = experiment.algorithm, experiment.graph
    living = {node.name for node in graph.resolve().nodes}
    for slot in (key for key, (_, group) in GROUPS.items() if group.slot and group.many):
        parts = components_in(algorithm, slot)
        if len(parts) < 2 or not _was_set(algorithm, usual, slot):
            continue
        shown = f"{slot}=[{', '.join(map(name_of, parts))}]"
        steps = [node for node in graph.nodes if any(node.call is part for part in parts)]
        for i, after in enumerate(steps):
            for step in steps[:i]:
                replaced = [c for c in step.writes if after.writes_column(c) and not after.reads_column(c)]
                if replaced and step.name not in living:
                    raise ConfigError(
                        f"{shown}: {name_of(step.call)} has no effect: {name_of(after.call)} replaces "
                        f"{', '.join(replaced)} and nothing reads it before"
                    )
                if compared := _made_of_the_same(step, after, graph):
                    raise ConfigError(
                        f"{shown}: {name_of(after.call)} has no effect after {name_of(step.call)}, which makes "
                        f"{compared} of what it is compared with ({', '.join(read.name for read in step.reads)})"
                    )


def _made_of_the_same(step: Node, after: Node, graph: Graph) -> str:
    """Return a column that a step replaces by what it makes of others, where the step after reads it and only these.

    What the list itself narrows and multiplies (mask, weight) says where and how much, not what.
    """
    before = graph.nodes[: graph.nodes.index(step)]
    sources, read_after = {read.name for read in step.reads}, {read.name for read in after.reads}
    for column in set(step.writes) & read_after - sources:
        others = [graph.table[name] for name in read_after - sources - {column}]
        news = [known for known in others if not (known.structural and known.rewritable)]
        if sources <= read_after and not news and any(node.writes_column(column) for node in before):
            return column
    return ""


def _check_kl(experiment: Experiment, usual: Any, line: Collection[str]) -> None:
    """Raise ConfigError for a KL estimator whose coefficient is 0, or a coefficient without an estimator."""
    algorithm = experiment.algorithm
    for slot, number in (("kl", "kl_coefficient"), ("kl_in_reward", "kl_in_reward_coefficient")):
        part, value = getattr(algorithm, slot, None), getattr(algorithm, number, 0)
        set_by_somebody = slot in line or _was_set(algorithm, usual, slot)
        if set_by_somebody and part is not None and not value and getattr(algorithm, "controller", None) is None:
            raise ConfigError(
                f"{slot}={name_of(part)} has no effect while algorithm.{number} is 0; set algorithm.{number} too"
            )
        if part is None and value:
            raise ConfigError(
                f"algorithm.{number}={value} has no effect without {slot}; choose one of {', '.join(names('kl'))}"
            )


def _check_settings(experiment: Experiment, line: Collection[str]) -> None:
    """Raise ConfigError for settings that leave each other without effect."""
    settings = experiment.settings
    way = settings.limits.when_underfilled
    if way != "error" and not any(node.rows for node in experiment.graph.resolve().rollout_stage):
        raise ConfigError(
            f"limits.when_underfilled={way} has no effect: this algorithm has no filter that makes a step refill"
        )
    if "resume" in line and "start_from" in line and settings.resume and settings.start_from:
        raise ConfigError(
            f"resume={settings.resume} and start_from={settings.start_from} exclude each other: go on with a "
            f"run, or begin a new one"
        )
    if not settings.warm_start.epochs:
        for name in ("learning_rate", "rows"):
            if getattr(settings.warm_start, name) != WarmStart.model_fields[name].default:
                raise ConfigError(f"warm_start.{name} has no effect: warm_start.epochs is 0, so there is no warm start")
    if settings.eval.greedy and settings.eval.temperature != 1.0:
        raise ConfigError(f"eval.temperature={settings.eval.temperature} has no effect with eval.greedy=true")
    if settings.eval.greedy and settings.eval.samples != 1:
        raise ConfigError(
            f"eval.samples={settings.eval.samples} has no effect with eval.greedy=true: greedy answers are all equal"
        )
