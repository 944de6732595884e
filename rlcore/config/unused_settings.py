"""What somebody set and no living node of the graph reads: an error before the run, wherever it was set."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rlcore.component import as_tuple, name_of, options, source_of
from rlcore.config.specs import Specs, specs_of
from rlcore.errors import ConfigError, nearest
from rlcore.experiment import Experiment, called_components
from rlcore.graph import Graph, Node
from rlcore.kinds import SLOTS
from rlcore.registry import names
from rlcore.settings import ENVIRONMENT, REWARD, Role, RunLimits, WarmStart


def check_unused(experiment: Experiment, specs: Specs, made: Any = None, typed: Collection[str] = ()) -> None:
    """Raise ConfigError for what was set and changes nothing, and for settings that exclude each other.

    `specs` are those of the components in the algorithm's slots. `made` is the algorithm as its factory makes it, whose
    components nobody has set; None for one without a factory. `typed` are keys of the command line, which somebody has
    set even where their value is the one that was there before.
    """
    before = specs_of(made)
    changed = {
        slot: as_tuple(getattr(experiment.algorithm, slot, None))
        for slot in SLOTS
        if specs.get(slot) and specs[slot] != before.get(slot)
    }
    # Before what looks at single nodes: of a list it would name the first component alone.
    _check_lists(experiment.graph, changed)
    _check_modes(experiment, made)
    _check_kl(experiment, {*typed, *changed})
    _check_slots(experiment, changed, made)
    _check_critic(experiment)
    _check_roles(experiment)
    _check_drawing(experiment, typed)
    _check_settings(experiment, typed)


def _check_drawing(experiment: Experiment, typed: Collection[str]) -> None:
    """Raise ConfigError for what concerns the drawing of answers where no policy draws any.

    With a reward, evaluations do. One file may serve several stages of a training, so that of what they may all have
    only the command line counts.
    """
    plan, settings, name = experiment.graph.resolve(), experiment.settings, experiment.algorithm.name
    if any(node.view == "sample" for node in plan.nodes):
        return
    given: dict[str, Any] = {"save.rollouts": settings.save.rollouts, "replay": settings.replay}
    given["max_weight_age"] = settings.max_weight_age
    idle = [f"{key}={_as_typed(value)}" for key, value in given.items() if value]
    if experiment.reward is None:
        of_drawing = ("sampling", "max_new_tokens", "sampler", "environment", "reward_manager", "reflection_phrases")
        idle += [key for key in typed if key.partition(".")[0] in of_drawing or key == "eval.samples"]
    if idle:
        evaluations = " Evaluations would draw answers if there were a reward" if experiment.reward is None else ""
        raise ConfigError(f"{idle[0]} has no effect: {name} learns from rows of the data and draws none.{evaluations}")


def _check_slots(experiment: Experiment, changed: Mapping[str, tuple[Any, ...]], made: Any) -> None:
    """Raise ConfigError for a component whose node nothing reads."""
    plan, idle, name = experiment.graph.resolve(), experiment.idle_slots, experiment.algorithm.name
    for slot in sorted(idle & changed.keys()):
        ids = set(map(id, changed[slot]))
        nodes = [n for n in experiment.graph.nodes if ids & set(map(id, called_components(n)))]
        columns = sorted({column for node in nodes for column in node.writes})
        makes = f"it makes {', '.join(columns)}, and nothing" if columns else "nothing"
        raise ConfigError(
            f"{slot}={name_of(changed[slot][0])} has no effect: {makes} in {name} reads that "
            f"(pruned: {', '.join(plan.pruned)}). Remove it, or choose components that read it"
        )
    value = getattr(experiment.algorithm, "kl_in_reward_coefficient", 0)
    if value and "kl_in_reward" in idle and value != getattr(made, "kl_in_reward_coefficient", 0):
        raise ConfigError(
            f"algorithm.kl_in_reward_coefficient={value} has no effect: nothing in {name} reads kl_in_reward"
        )


def _check_modes(experiment: Experiment, made: Any) -> None:
    """Raise ConfigError for an option that counts only beside another value of another option."""
    for slot in SLOTS:
        for component in as_tuple(getattr(experiment.algorithm, slot, None)):
            known = options(component)
            if not any(option.only_with for option in known.values()):
                continue
            source = source_of(component)
            plain = options(source)
            comes_with = as_tuple(getattr(made, slot, None))
            like = next((options(each) for each in comes_with if source_of(each) is source), {})
            for name, option in known.items():
                mark, value = option.only_with, option.default
                if mark is None or mark.holds(known[mark.option].default):
                    continue
                # What the component or the algorithm comes with, as every run's own file spells it out.
                if value == plain[name].default or (name in like and value == like[name].default):
                    continue
                raise ConfigError(
                    f"{slot}.{name}={value} has no effect in {name_of(component)} with "
                    f"{mark.option}={_as_typed(known[mark.option].default)}: it counts only where {mark}"
                )


def _as_typed(value: object) -> str:
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


def _check_lists(graph: Graph, changed: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise ConfigError for a list with a component whose result a later one overwrites before anything reads it."""
    living = {node.name for node in graph.resolve().nodes}
    for slot in (key for key, several in changed.items() if len(several) > 1):
        listed = f"{slot}=[{', '.join(map(name_of, changed[slot]))}]"
        steps = [node for node in graph.nodes if any(node.call is each for each in changed[slot])]
        for i, after in enumerate(steps):
            for step in steps[:i]:
                replaced = [c for c in step.writes if after.writes_column(c) and not after.reads_column(c)]
                if replaced and step.name not in living:
                    raise ConfigError(
                        f"{listed}: {name_of(step.call)} has no effect: {name_of(after.call)} replaces "
                        f"{', '.join(replaced)} and nothing reads it before"
                    )
                if compared := _replaced_column(step, after, graph):
                    raise ConfigError(
                        f"{listed}: {name_of(after.call)} has no effect after {name_of(step.call)}, which makes "
                        f"{compared} of what it is compared with ({', '.join(read.name for read in step.reads)})"
                    )


def _replaced_column(step: Node, after: Node, graph: Graph) -> str:
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


def _check_kl(experiment: Experiment, changed: Collection[str]) -> None:
    """Raise ConfigError for a KL estimator whose coefficient is 0, or a coefficient without an estimator."""
    controller = getattr(experiment.algorithm, "controller", None)
    for slot, number in (("kl", "kl_coefficient"), ("kl_in_reward", "kl_in_reward_coefficient")):
        estimator, value = getattr(experiment.algorithm, slot, None), getattr(experiment.algorithm, number, 0)
        if slot in changed and estimator is not None and not value and controller is None:
            raise ConfigError(
                f"{slot}={name_of(estimator)} has no effect while algorithm.{number} is 0; set algorithm.{number} too"
            )
        if estimator is None and value:
            raise ConfigError(
                f"algorithm.{number}={value} has no effect without {slot}; choose one of {', '.join(names('kl'))}"
            )


def _check_settings(experiment: Experiment, typed: Collection[str]) -> None:
    """Raise ConfigError for settings that leave each other without effect."""
    settings = experiment.settings
    way = settings.limits.when_underfilled
    if way != "error" and not any(node.rows for node in experiment.graph.resolve().rollout_stage):
        raise ConfigError(
            f"limits.when_underfilled={way} has no effect: this algorithm has no filter that makes a step refill"
        )
    environments = [n.call for n in experiment.graph.nodes if n.view == "sample" and n.call is not None]
    single = bool(environments) and all(getattr(source_of(each), "turns", None) == 1 for each in environments)
    if settings.limits.max_turns != RunLimits.model_fields["max_turns"].default and single:
        raise ConfigError(
            f"limits.max_turns={settings.limits.max_turns} has no effect: an episode of "
            f"{name_of(environments[0])} has a single turn"
        )
    if "resume" in typed and "start_from" in typed and settings.resume and settings.start_from:
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


def _check_roles(experiment: Experiment) -> None:
    """Raise ConfigError for settings of a role that the graph does not have, or that have no effect on it."""
    plan = experiment.graph.resolve()
    known = [*plan.roles, REWARD, ENVIRONMENT]
    updated = {node.role for node in plan.nodes if node.view == "update"}
    for role in getattr(experiment.algorithm, "own_models", ()):
        if experiment.settings.roles.get(role, Role()).model is None:
            raise ConfigError(
                f"{experiment.algorithm.name} needs another model as {role}: roles.{role}.model=FOLDER (or hf:ORG/NAME)"
            )
    for name, own in experiment.settings.roles.items():
        if name not in known:
            raise ConfigError(
                f"roles.{name}: the graph has no such role; it has: {', '.join(known)}.{nearest(name, known)}"
            )
        given = {key for key, value in own.model_dump().items() if value is not None}
        if name in plan.sampler_roles:
            refused, why = {"model", "learning_rate"}, "a sampler draws from the weights of its trainer"
        elif name in (REWARD, ENVIRONMENT):
            refused, why = {"model", "learning_rate", "device"}, "it holds no weights"
        else:
            refused, why = set() if name in updated else {"learning_rate"}, "no node updates its weights"
        if found := sorted(refused & given):
            raise ConfigError(f"roles.{name}.{found[0]} has no effect: {why}. Remove it")
        here = (own.execution or experiment.settings.execution.mode) == "local"
        if name in plan.sampler_roles and own.device and here and not experiment.settings.max_weight_age:
            raise ConfigError(
                f"roles.{name}.device={own.device} has no effect: in this process a sampler draws from its trainer's "
                f"own weights, where they are. Set roles.{name}.execution=process, or remove it"
            )
