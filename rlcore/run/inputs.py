"""The inputs of a run before a model is loaded: graph, rows to train on, held-out rows and the reward manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rlcore.component import Component, bind, name_of, options, source_of, started
from rlcore.data import (
    DataOrder,
    DrawnRows,
    LazyRows,
    Order,
    Row,
    RowEncoder,
    Rows,
    columns_of,
    describe_counts,
    target_of,
)
from rlcore.errors import ConfigError, DataError, RunError
from rlcore.execute.adapters import call_on_data
from rlcore.execute.remote import RemoteManager
from rlcore.experiment import Experiment
from rlcore.graph import Graph, Plan
from rlcore.protocols import RewardManager
from rlcore.registry import registry
from rlcore.run.dry_step import DryEncoder, dry_step
from rlcore.run.roles import hosted_manager, start_role
from rlcore.run.run_folder import existing_run
from rlcore.services import first_refused, start
from rlcore.settings import DEFAULT_STEPS, REWARD, Sampling, Settings


@dataclass(frozen=True)
class Inputs:
    """The graph of a step, the rows to train on, those held out, and the manager of each policy's reward."""

    graph: Graph
    rows: Sequence[Row]
    heldout: Sequence[Row]
    managers: Mapping[str, RewardManager]

    def close(self) -> None:
        """End what the managers started."""
        for manager in self.managers.values():
            manager.close()


def prepare(experiment: Experiment) -> Inputs:
    """Return the inputs of a run, after a dry step. Raises what a run would raise for components that do not fit."""
    if experiment.settings.replay is not None:
        existing_run(experiment.settings.replay)
    graph = experiment.graph
    check_kept_mass(graph.resolve(), experiment.settings.sampling, experiment.sampler)
    rows = load_rows(experiment)
    heldout = load_heldout(experiment)
    inputs = Inputs(graph, rows, heldout, managers := {})
    try:
        for policy in graph.policies:
            of_policy = graph.of_policy(policy)
            check_token_rows(of_policy, rows, DryEncoder())
            reward = own_call(of_policy, "grade", experiment.reward)
            if reward is not None:
                # Rows that no policy draws are not graded; a reward is then for evaluations.
                graded = rows if draws(of_policy) or not heldout else heldout
                manager = managers[policy] = start_manager(experiment, reward, graded)
                if draws(of_policy):
                    check_rows(manager, rows, "training row")
                if not policy:
                    check_rows(manager, heldout, "held-out row")
            dry_step(of_policy, experiment.algorithm, experiment.settings, rows, registry().names("readout"))
    except BaseException:
        inputs.close()
        raise
    return inputs


def draws(graph: Graph) -> bool:
    """Tell whether a policy draws the rows of a graph; else they are those of the data set."""
    return any(n.view == "sample" for n in graph.resolve().nodes)


def check_token_rows(graph: Graph, rows: Sequence[Row], encode: RowEncoder) -> None:
    """Let the graph's `rows` node make ids of every data row that is in memory.

    Raises DataError with the number (from 0) of a row that it cannot use.
    """
    nodes = [n for n in graph.resolve().nodes if n.view == "encode"]
    if not nodes or not isinstance(rows, Rows | list):
        return
    component = started(nodes[0].call)
    for number, row in enumerate(rows):
        try:
            # Twice: what looks at all rows of a step may compare them.
            call_on_data(nodes[0], component, encode, [(0, row), (1, row)], graph.table)
        except DataError as error:
            raise DataError(f"training row {number} of {len(rows)} (from 0): {error}") from error


def own_call(graph: Graph, view: str, otherwise: Any) -> Any:
    """Return the component that the first node of a view calls; `otherwise` where none of them names one."""
    return next((n.call for n in graph.nodes if n.view == view and n.call is not None), otherwise)


def load_rows(experiment: Experiment, split: str | None = None) -> Sequence[Row]:
    """Return the data set's rows: its own split, or another one. Lazy ones are neither read nor drawn."""
    dataset = experiment.dataset
    rows: Sequence[Row] = bind(dataset, split=split)() if split is not None else dataset()
    return rows if isinstance(rows, Rows | LazyRows | DrawnRows) else Rows(rows)


def load_heldout(experiment: Experiment) -> Sequence[Row]:
    """Return the held-out rows: `eval.data`, else the `heldout` split where the run trains on `train`.

    Of rows that are drawn when asked for, no more are drawn than `eval.limit` keeps. Raises RunError where `eval.data`
    is neither a split nor a file that the data set can read.
    """
    dataset, wanted = experiment.dataset, experiment.settings.eval.data
    if wanted is None:
        rows: Sequence[Row] = []
        apart = _trains_on_train(dataset) and _has_split(dataset, "heldout")
        if apart:
            rows = load_rows(experiment, "heldout")
    elif _has_split(dataset, wanted):
        rows = load_rows(experiment, wanted)
    elif "path" in options(dataset):
        rows = list(bind(dataset, path=wanted, split="all")())
    else:
        raise RunError(
            f"eval.data={wanted!r} is neither a split of {name_of(dataset)} nor can that data set read a file"
        )
    limit = experiment.settings.eval.limit
    return rows[: limit or None] if limit or isinstance(rows, DrawnRows) else rows


def heldout_hint(dataset: Component) -> str:
    """Return which settings would give a run of this data set held-out problems."""
    ways = ["eval.data=FILE"] if "path" in options(dataset) else []
    if _has_split(dataset, "heldout"):
        ways += ["data.split=train"] if options(dataset)["split"].default != "train" else ["eval.data=heldout"]
    return f"set {' or '.join(ways)}" if ways else f"{name_of(dataset)} has none"


def dropped_rows_note(rows: Sequence[Row]) -> str:
    """Return "; left out: ..." with the counts of rows that the data set dropped; empty where it dropped none."""
    counts = describe_counts(rows.counts if isinstance(rows, Rows | LazyRows) else {})
    return f"; left out: {counts}" if counts else ""


def _trains_on_train(dataset: Component) -> bool:
    split = options(dataset).get("split")
    return split is not None and split.default == "train"


def _has_split(dataset: Component, split: str) -> bool:
    option = options(dataset).get("split")
    return option is not None and split in getattr(option.annotation, "__args__", ())


def start_manager(experiment: Experiment, reward: Component, rows: Sequence[Row]) -> RewardManager:
    """Start the manager of a reward, which checks the columns of the rows. Raises what its `check` raises."""
    here = partial(start, "reward_manager", experiment.reward_manager, reward)
    there = partial(hosted_manager, experiment.reward_manager, reward)
    manager: RewardManager = start_role(experiment.settings, REWARD, "reward_manager", here, there)
    manager.check(set(rows.columns if isinstance(rows, LazyRows) else columns_of(rows)))
    return manager


def check_rows(manager: RewardManager, rows: Sequence[Row], which: str) -> None:
    """Let the manager check every row: one may have a target that no completion could be compared with.

    Raises DataError with the row's number (from 0), its target, and what the reward says. Where no reward has anything
    to say (`checks_rows` is False), rows that stay in their file are not read.
    """
    if not manager.checks_rows:
        return
    refused = (manager.first_refused if isinstance(manager, RemoteManager) else partial(first_refused, manager))(rows)
    if refused is not None:
        number, error = refused
        target = target_of(rows[number])
        raise DataError(f"{which} {number} of {len(rows)} (from 0), with the target {target!r:.80}: {error}") from error


def make_order(component: Component, rows: Sequence[Row], seed: int) -> Order:
    """Return the order in which rows are drawn. Raises ConfigError for one that is no `Order`."""
    order: Order = start("order", component, offered={"size": len(rows), "seed": seed, "rows": rows})
    return order


def count_steps(settings: Settings, count: int) -> int:
    """Return how many steps a run over so many rows has. Raises DataError if they hold not one."""
    if settings.epochs is not None:
        return DataOrder(count, settings.seed).steps(settings.epochs, settings.prompts)
    return settings.steps or DEFAULT_STEPS


def check_kept_mass(plan: Plan, sampling: Sampling, sampler: Any) -> None:
    """Raise ConfigError where a node needs the mass that top-p, top-k or min-p kept and the sampler does not report it.

    `sampler` is a sampler or its factory. A factory that does not say `reports_kept_logmass` is not judged: the run
    calls this again with the sampler.
    """
    cut = {"top_p": sampling.top_p < 1, "top_k": sampling.top_k > 0, "min_p": sampling.min_p > 0}
    readers = [node.name for node in plan.nodes if "kept_logmass" in plan.available_reads(node)]
    says = getattr(sampler, "reports_kept_logmass", getattr(source_of(sampler), "reports_kept_logmass", None))
    if says is not False or not readers or not any(cut.values()):
        return
    on = ", ".join(f"sampling.{name}={getattr(sampling, name)}" for name, cuts in cut.items() if cuts)
    raise ConfigError(
        f"{', '.join(readers)} compares the sampler's log-probabilities with the trainer's, but under {on} they are "
        f"those of a cut distribution, and sampler {name_of(sampler)} does not report the mass that it kept "
        f"(reports_kept_logmass). Draw from the whole one (top_p=1, top_k=0, min_p=0), or drop what compares"
    )
