"""Loading: from an experiment to models, sampler and executor, ready for the first step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rlcore import checkpoint
from rlcore.algorithm import environment_columns
from rlcore.checkpoint import load_trainer, save_trainer
from rlcore.component import name_of, source_of
from rlcore.data import LazyRows, Row, completion_text, prompt_string
from rlcore.errors import CheckpointError, ConfigError, RunError, counted
from rlcore.execute.grader import Grader
from rlcore.execute.local import LocalExecutor, Roles
from rlcore.execute.rollout import Rollout
from rlcore.experiment import Experiment
from rlcore.graph import Graph
from rlcore.protocols import Sampler, Trainer
from rlcore.registry import registry
from rlcore.run import build
from rlcore.run.base_model import base_model_folder, local_model_folder
from rlcore.run.evaluate import evaluate
from rlcore.run.inputs import (
    Inputs,
    check_kept_mass,
    check_token_rows,
    count_steps,
    draws,
    dropped_rows_note,
    make_order,
    own_call,
    prepare,
)
from rlcore.run.progress import Progress
from rlcore.run.prompts import ObservingGrader, PromptFitter, PromptSource
from rlcore.run.replay import ReplayedRollout, rollouts_folder
from rlcore.run.roles import (
    close_roles,
    load_policies,
    role_settings,
    start_environment,
    start_sampler,
    start_trainers,
)
from rlcore.run.run_folder import existing_run
from rlcore.seeding import stream
from rlcore.settings import Settings
from rlcore.train.model import LanguageModel


@dataclass
class Policy:
    """What draws, grades and trains the rows of one policy.

    Rows that come from the data set need no rollout and no grader; with a reward there are both, for evaluations.
    """

    rollout: Rollout | None
    grader: Grader | None
    executor: LocalExecutor
    prompts: PromptSource

    @property
    def services(self) -> tuple[Any, ...]:
        """Return what was started for this policy beside its trainer."""
        drawing = (self.rollout.sampler, self.rollout.environment) if self.rollout is not None else ()
        return (*([self.grader.manager] if self.grader is not None else ()), *drawing)

    @property
    def failed(self) -> int:
        """Return how many rows so far are unscored because their reward failed."""
        return self.grader.manager.failed if self.grader is not None else 0

    @property
    def components(self) -> tuple[str, ...]:
        """Return the names of the score's components, in the order of their columns."""
        return self.grader.components if self.grader is not None else ()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of executor, prompts and score components."""
        return {
            "executor": self.executor.state_dict(),
            "prompts": self.prompts.state_dict(),
            "score_components": list(self.components),
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.executor.load_state_dict(saved["executor"])
        self.prompts.load_state_dict(saved["prompts"])
        if self.grader is not None:
            self.grader.components = tuple(saved["score_components"])
        # The sampler was given the weights that the run was loaded with.
        self.executor.sync_samplers()


@dataclass
class LoadedRun:
    """All that a run has loaded and started.

    `policies` are those that its graph trains, the first of them under an empty name; it is the one that is evaluated.
    `decode` turns ids into the text that a reward is given, `show` a prompt into its text.
    """

    model: LanguageModel
    trainers: dict[str, Trainer]
    policies: dict[str, Policy]
    heldout: list[Row]
    total_steps: int
    decode: Callable[[Sequence[int]], str]
    show: Callable[[Any], str]

    @property
    def first(self) -> Policy:
        """Return the first policy, which most runs have alone."""
        return self.policies[""]

    def close(self, *, processes: bool = True) -> None:
        """End what was started: rollouts that run ahead, workers, roles that live in processes of their own.

        Without `processes` those roles live on, so that a run that is done can still be evaluated; they end with the
        run's object, or with this process.
        """
        for policy in self.policies.values():
            policy.executor.close()
        services = [*(s for policy in self.policies.values() for s in policy.services), *self.trainers.values()]
        close_roles([s for s in services if processes or not hasattr(s, "handle")])

    def evaluate(self, rows: Sequence[Row], settings: Settings, progress: Progress) -> dict[str, float]:
        """Return what the first policy is worth on other rows: `rlcore.run.evaluate`, where there is a reward.

        Where no policy draws the rows of training: their loss too, and the metrics of the losses.
        """
        values: dict[str, float] = {}
        policy = self.first
        if not draws(policy.executor.graph):
            values |= policy.executor.measure(rows).values()
            policy.executor.sync_samplers(("sampler",) if policy.rollout is not None else ())
        if policy.rollout is not None and policy.grader is not None:
            rollout, grader = policy.rollout, policy.grader
            values |= evaluate(rows, rollout=rollout, grader=grader, settings=settings.eval, progress=progress)
        if not values:
            raise RunError("there is nothing to evaluate by: without a reward, give one: reward=NAME")
        return values

    def state_dict(self) -> dict[str, Any]:
        """Return the state that checkpoints keep beside that of trainers: what policies have drawn and not trained."""
        return {"policies": {name: policy.state_dict() for name, policy in self.policies.items()}}

    def writers(self) -> dict[str, Callable[[Path], None]]:
        """Return what writes the state of each role that is trained."""
        return {role: partial(save_trainer, t) for role, t in self.trainers.items() if not t.frozen}

    def load_state_dict(self, saved: Mapping[str, Any], *, where: Path) -> None:
        """Restore what `state_dict` and `writers` gave; `where` is their checkpoint.

        Raises CheckpointError, before anything is restored, where it holds other roles than this run trains.
        """
        own = self.writers()
        if set(checkpoint.roles(where)) != set(own):
            raise CheckpointError(
                f"{where} holds weights of {', '.join(checkpoint.roles(where)) or 'no role'}; this run trains "
                f"{', '.join(sorted(own))}"
            )
        for role in own:
            load_trainer(self.trainers[role], where / role)
        for name, policy in self.policies.items():
            policy.load_state_dict(saved["policies"][name])

    def account(self) -> dict[str, Any]:
        """Return what became of the groups that were drawn, of all policies together: trained, dropped, waiting."""
        accounts = [policy.executor.account() for policy in self.policies.values()]
        dropped = Counter[str]()
        for each in accounts:
            dropped.update(each["dropped"])
        summed = {key: sum(each[key] for each in accounts) for key in accounts[0] if key != "dropped"}
        return {**summed, "dropped": dict(dropped)}


def load(experiment: Experiment, progress: Progress, step: Callable[[], int]) -> LoadedRun:
    """Load models and data; `step()` is the number of the step, for a replay. Raises errors before models load."""
    settings = experiment.settings
    build.use_threads(settings.threads)
    inputs = prepare(experiment)
    base = base_model_folder(experiment, progress)
    model = build.load_model(base, role_settings(settings, "trainer"))
    build.warn_of_no_end(model, settings)
    if note := dropped_rows_note(inputs.rows):
        progress.say(f"data: {counted(len(inputs.rows), 'row')}{note}")
    fitted = fit_inputs(inputs, model, settings)
    if fitted.dropped:
        progress.say(fitted.dropped_message(settings))
    total_steps = count_steps(settings, len(fitted.rows))
    plan = inputs.graph.resolve()
    models = load_policies(experiment, plan, model, base)
    trainers = start_trainers(experiment, plan, models, base, total_steps)
    build.attach_references(inputs.graph, trainers, experiment.trainer)
    # Where no policy draws, a sampler is needed for the evaluations of a reward alone.
    evaluated = ("sampler",) if inputs.managers else ()
    samplers = {
        role: start_sampler(experiment, role, plan.drawn_from.get(role, "trainer"), models, base)
        for role in plan.sampler_roles or evaluated
    }
    for sampler in samplers.values():
        check_kept_mass(plan, settings.sampling, sampler)
    sync = build.make_sync(experiment.weight_transfer, plan, trainers, samplers)
    decode = partial(completion_text, model.tokenizer, eos_ids=model.eos_ids)
    show = partial(prompt_string, model.tokenizer)
    policies = {}
    for name in inputs.graph.policies:
        graph = inputs.graph.of_policy(name)
        drawing = next(iter(graph.resolve().sampler_roles), "sampler")
        rollout, source = None, None
        if drawing in samplers:
            rollout, source = start_rollout(experiment, graph, name, samplers[drawing], model, step)
        grader = Grader(inputs.managers[name], decode, show) if name in inputs.managers else None
        prompts = PromptSource(fitted.rows, make_order(experiment.order, fitted.rows, settings.seed), fit=fitted.fit)
        if grader is None and prompts.observes:
            raise ConfigError(
                f"order={name_of(experiment.order)} uses scores, and {experiment.algorithm.name} grades nothing"
            )
        graded: Any = ObservingGrader(grader, prompts) if grader is not None and prompts.observes else grader
        drawn: Any = source
        roles = Roles(
            trainers=trainers, rollout=drawn, grader=graded, draw=prompts, sync=sync, encode=build.row_encoder(model)
        )
        executor = build.make_executor(graph, roles, experiment.algorithm, settings, total_steps, _notify)
        executor.sync_samplers()
        policies[name] = Policy(rollout, grader, executor, prompts)
    # What is drawn and never graded cannot be evaluated.
    heldout = fitted.heldout if inputs.managers or not draws(inputs.graph) else []
    return LoadedRun(
        model=model,
        trainers=trainers,
        policies=policies,
        heldout=heldout,
        total_steps=total_steps,
        decode=decode,
        show=show,
    )


def start_rollout(
    experiment: Experiment, graph: Graph, policy: str, sampler: Sampler, model: LanguageModel, step: Callable[[], int]
) -> tuple[Rollout, Any]:
    """Return the rollout of a policy, and what its rows come from: the rollout itself or, in a replay, kept ones."""
    settings = experiment.settings
    environment = own_call(graph, "sample", experiment.environment)
    rollout = Rollout(
        sampler=sampler,
        tokenizer=model.tokenizer,
        environment=start_environment(experiment, environment),
        params=build.sampling_params(settings),
        seed=stream(settings.seed, "policy", policy) if policy else settings.seed,
        decode=partial(completion_text, model.tokenizer, eos_ids=model.eos_ids),
        max_positions=model.max_positions,
        max_prompt_tokens=settings.max_prompt_tokens,
        long_prompts=settings.long_prompts,
        eos_ids=model.eos_ids,
        vocab_size=model.vocab_size,
        columns=environment_columns(environment),
        max_turns=settings.limits.max_turns,
        turn_seconds=settings.limits.turn_seconds,
        turns=getattr(source_of(environment), "turns", None),
    )
    if settings.replay is None:
        return rollout, rollout
    return rollout, ReplayedRollout(rollout, rollouts_folder(existing_run(settings.replay), policy), step)


@dataclass
class FittedRows:
    """The rows of a run whose prompts fit, how many do not, and the fitter of rows that are read as they are drawn."""

    rows: Sequence[Row]
    heldout: list[Row]
    dropped: int
    fit: PromptFitter | None

    def dropped_message(self, settings: Settings) -> str:
        """Return a sentence on how many prompts are left out."""
        return (
            f"{self.dropped} of {len(self.rows) + self.dropped} prompts are longer than "
            f"max_prompt_tokens={settings.max_prompt_tokens} and left out"
        )


def fit_inputs(inputs: Inputs, model: LanguageModel, settings: Settings) -> FittedRows:
    """Return a run's rows with prompts that fit the model; rows that stay in their file are fitted as they are drawn.

    Raises DataError for prompts that the tokenizer cannot encode (messages without a chat template), where none fits,
    or where a prompt and its completion pass the model. Rows that no policy draws are made into ids once, so that one
    that cannot be used is found before the first step.
    """
    if not draws(inputs.graph):
        check_token_rows(inputs.graph, inputs.rows, build.row_encoder(model))
        heldout = list(inputs.heldout)
        if inputs.managers and heldout:
            heldout = build.fit_rows(heldout, model, settings)[0]
        return FittedRows(inputs.rows, heldout, 0, None)
    fit = PromptFitter(inputs.rows.columns, model, settings) if isinstance(inputs.rows, LazyRows) else None
    rows, dropped = build.fit_rows(inputs.rows, model, settings) if fit is None else (inputs.rows, 0)
    heldout = build.fit_rows(inputs.heldout, model, settings)[0] if inputs.heldout else []
    return FittedRows(rows, heldout, dropped, fit)


def try_prompts(experiment: Experiment, inputs: Inputs) -> tuple[Sequence[Row], Sequence[Row], list[str]]:
    """Return the rows to train on and those held out that a run would use, and lines on what was found.

    No weights are read. Where the model is not on this machine, a line says that nothing was tried. Raises what
    `load` would raise for the model's folder, its chat template and the lengths of prompts.
    """
    folder, settings = local_model_folder(experiment), experiment.settings
    if folder is None:
        line = "not tried: chat template and prompt lengths (the model is not on this machine)"
        return inputs.rows, inputs.heldout, [line]
    model = build.load_without_weights(folder, settings)
    build.warn_of_no_end(model, settings)
    fitted = fit_inputs(inputs, model, settings)
    return fitted.rows, fitted.heldout, [fitted.dropped_message(settings)] if fitted.dropped else []


def _notify(step: int, node: str, seconds: float, rows: int) -> None:
    registry().notify("node_finished", step=step, node=node, seconds=seconds, rows=rows)
