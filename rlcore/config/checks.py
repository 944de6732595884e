"""Settings that contradict each other or have no effect: said before a run, not found after it."""

from __future__ import annotations

from rlcore.component import name_of
from rlcore.config.assembly import Nodes
from rlcore.config.layers import Layer
from rlcore.config.parts import GROUPS, Shelf, options_of
from rlcore.errors import ConfigError, nearest
from rlcore.experiment import Experiment
from rlcore.graph import Graph, Node
from rlcore.registry import names
from rlcore.settings import RESUMABLE, WarmStart

ON_NODE = {
    "value_loss": "critic_update",
    "value_reduction": "critic_update",
    "controller": "controller",
    "filter": "filter",
    "correction": "correction",
}


def check_effects(experiment: Experiment, merged: Layer, high: Layer, own: Nodes, nodes: Nodes) -> None:
    """Raise ConfigError for what was set and changes nothing, and for settings that exclude each other."""
    check_trackers(experiment)
    # Before what looks at single nodes: of a list it would name the first part alone.
    check_lists(experiment, merged, own, nodes)
    check_graph_effects(experiment, merged, own, nodes)
    check_kl(experiment, merged, high, own, nodes)
    check_refill(experiment)
    settings = experiment.settings
    if ("resume",) in high.settings and ("start_from",) in high.settings and settings.resume and settings.start_from:
        raise ConfigError(
            f"resume={settings.resume} and start_from={settings.start_from} exclude each other: go on with a "
            f"run, or begin a new one"
        )
    if not settings.warm_start.epochs:
        for name in ("learning_rate", "rows"):
            if ("warm_start", name) in merged.settings and getattr(settings.warm_start, name) != default_of(name):
                raise ConfigError(f"warm_start.{name} has no effect: warm_start.epochs is 0, so there is no warm start")
    if settings.eval.greedy and settings.eval.temperature != 1.0:
        raise ConfigError(f"eval.temperature={settings.eval.temperature} has no effect with eval.greedy=true")
    if settings.eval.greedy and settings.eval.samples != 1:
        raise ConfigError(
            f"eval.samples={settings.eval.samples} has no effect with eval.greedy=true: greedy answers are all equal"
        )


def default_of(name: str) -> object:
    """Return the default of a setting of the warm start."""
    return WarmStart.model_fields[name].default


def idle_parts(experiment: Experiment) -> set[str]:
    """Return the parts of the algorithm whose node nothing reads."""
    living = {node.name for node in experiment.graph.resolve().nodes}
    return {group for group, node in ON_NODE.items() if node not in living}


def check_options(shelf: Shelf, merged: Layer, own: Nodes, nodes: Nodes) -> None:
    """Raise ConfigError for an option that somebody set and that counts only beside another value of another one."""
    for group, parts in nodes.items():
        given = {path[-1] for path in merged.settings if path[0] == group and len(path) > 1}
        for node in parts:
            usual = next((one for one in own.get(group, []) if one["name"] == node["name"]), None)
            for option in options_of(shelf.find(GROUPS[group].kind, node["name"], group), group).values():
                mark, value = option.only_with, node.get(option.name)
                if mark is None or option.name not in given or mark.holds(node.get(mark.option)):
                    continue
                # What the part or the algorithm comes with, as every run's own file spells it out.
                if value in (option.default, (usual or {}).get(option.name)):
                    continue
                raise ConfigError(
                    f"{group}.{option.name}={value} has no effect in {node['name']} with "
                    f"{mark.option}={_written(node.get(mark.option))}: it counts only where {mark}"
                )


def _written(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def check_trackers(experiment: Experiment) -> None:
    """Raise ConfigError for an unknown tracker."""
    known = names("tracker")
    for name in experiment.settings.tracker:
        if name not in known:
            hint = f" Several are written tracker=[{name}]." if "," in name else ""
            raise ConfigError(f"tracker {name!r} is unknown; known: {', '.join(known)}.{nearest(name, known)}{hint}")


def check_graph_effects(experiment: Experiment, merged: Layer, own: Nodes, nodes: Nodes) -> None:
    """Raise ConfigError for a part that no living node of the graph uses, and for a critic that nothing trains."""
    algorithm = experiment.algorithm
    plan = experiment.graph.resolve()
    living = {node.name for node in plan.nodes}
    for group, node in ON_NODE.items():
        said = merged.has(group) and nodes.get(group, []) != own[group]
        if said and nodes.get(group) and node not in living:
            shown = nodes[group][0]["name"]
            raise ConfigError(
                f"{group}={shown} has no effect: nothing in this algorithm reads what it makes "
                f"(pruned: {', '.join(plan.pruned)})"
            )
    if "critic" in plan.roles and not any(node.writes_column("weights.critic") for node in plan.nodes):
        readers = ", ".join(n.name for n in plan.nodes if "value" in plan.reads_of(n))
        raise ConfigError(
            f"{readers} reads 'value', which a critic gives, but nothing would train the critic; set value_loss "
            f"(one of {', '.join(n for n in names('loss') if 'value' in n) or ', '.join(names('loss'))})"
        )
    if "critic" not in plan.roles:
        if algorithm.critic_warmup:
            raise ConfigError(
                f"algorithm.critic_warmup={algorithm.critic_warmup} has no effect: this algorithm has no critic"
            )
        if experiment.settings.training.critic_learning_rate is not None:
            raise ConfigError("training.critic_learning_rate has no effect: this algorithm has no critic")


def check_lists(experiment: Experiment, merged: Layer, own: Nodes, nodes: Nodes) -> None:
    """Raise ConfigError for a step of a list whose result the next replaces unread, or that has nothing to compare."""
    algorithm, graph = experiment.algorithm, experiment.graph
    living = {node.name for node in graph.resolve().nodes}
    lists = {"advantage": algorithm.chain, "correction": algorithm.corrections, "shaping": algorithm.shaping}
    for group, parts in lists.items():
        if not merged.has(group) or nodes.get(group, []) == own[group]:
            continue
        shown = f"{group}=[{', '.join(str(node['name']) for node in nodes[group])}]"
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
    sources, taken = {read.name for read in step.reads}, {read.name for read in after.reads}
    for column in set(step.writes) & taken - sources:
        beside = [graph.table[name] for name in taken - sources - {column}]
        news = [known for known in beside if not (known.structural and known.rewritable)]
        if sources <= taken and not news and any(node.writes_column(column) for node in before):
            return column
    return ""


def check_refill(experiment: Experiment) -> None:
    """Raise ConfigError for a way out of a refill that finds nothing, where nothing is refilled."""
    way = experiment.settings.limits.when_underfilled
    if way != "error" and not any(node.rows for node in experiment.graph.resolve().rollout_stage):
        raise ConfigError(
            f"limits.when_underfilled={way} has no effect: this algorithm has no filter whose dropped groups are "
            f"replaced"
        )


def check_kl(experiment: Experiment, merged: Layer, high: Layer, own: Nodes, nodes: Nodes) -> None:
    """Raise ConfigError for a KL estimator whose coefficient is 0, or a coefficient without an estimator."""
    algorithm = experiment.algorithm
    for group, number in (("kl", "kl_coefficient"), ("kl_in_reward", "kl_in_reward_coefficient")):
        part, value = getattr(algorithm, group), getattr(algorithm, number)
        said = group in high.choices or (group in merged.choices and nodes.get(group, []) != own[group])
        if said and part is not None and not value and algorithm.controller is None:
            raise ConfigError(
                f"{group}={nodes[group][0]['name']} has no effect while algorithm.{number} is 0; "
                f"set algorithm.{number} too"
            )
        if part is None and value:
            raise ConfigError(
                f"algorithm.{number}={value} has no effect without {group}; choose one of "
                f"{', '.join(names(GROUPS[group].kind))}"
            )


def check_resume(low: Layer, high: Layer, experiment: Experiment) -> None:
    """Raise ConfigError for a resumed run with a part or setting that only a new run may change."""
    if ("resume",) not in high.settings or experiment.settings.resume is None:
        return
    said = [*high.choices, *(".".join(path) for path in high.settings)]
    fixed = [key for key in said if key.partition(".")[0] not in RESUMABLE]
    changed = [key for key in fixed if _says(low, key) != _says(high, key)]
    if changed:
        raise ConfigError(
            f"resume: {changed[0]} cannot be changed in a resumed run; it may change "
            f"{', '.join(k for k in RESUMABLE if k != 'resume')}. "
            f"To begin a new run from its weights use start_from={experiment.settings.resume}"
        )


def _says(layer: Layer, key: str) -> object:
    given = layer.choices.get(key) or layer.settings.get(tuple(key.split(".")))
    return given.value if given is not None else None
