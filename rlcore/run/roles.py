"""Roles of a run: what each is started from, and where it lives."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rlcore.component import Component
from rlcore.execute.process import RoleSpec
from rlcore.execute.remote import HostedEnvironment, HostedManager, HostedSampler, HostedTrainer, start_remotely
from rlcore.experiment import Experiment
from rlcore.graph import Plan
from rlcore.protocols import Sampler, Trainer
from rlcore.run import build
from rlcore.seeding import seeded
from rlcore.services import start
from rlcore.settings import ENVIRONMENT, Role, Settings
from rlcore.train.model import LanguageModel
from rlcore.train.precision import choose_precision
from rlcore.train.trainer import TrainerConfig

log = logging.getLogger("rlcore")


def in_process(settings: Settings, name: str) -> bool:
    """Tell whether a role lives in a process of its own."""
    own = settings.roles.get(name, Role())
    return (own.execution or settings.execution.mode) == "process"


def role_settings(settings: Settings, name: str) -> Settings:
    """Return a run's settings with those of one role in their place."""
    own = settings.roles.get(name, Role())
    changed = {"device": own.device, "learning_rate": own.learning_rate}
    return settings.model_copy(update={key: value for key, value in changed.items() if value is not None})


def start_role(settings: Settings, name: str, kind: str, start_here: Any, start_there: Any = None) -> Any:
    """Start a role where its settings say: by `start_here` in this process, or by `start_there` in one of its own.

    Both are called without arguments; without `start_there` the same is done in both.
    """
    if not in_process(settings, name):
        return start_here()
    return start_remotely(RoleSpec(name, kind, start_there or start_here, settings.execution.deadline))


# -- what is called where the role lives


def trainer_of_folder(component: Component, config: TrainerConfig, folder: Path, settings: Settings, role: str) -> Any:
    """Return the trainer of a role, of the model in a folder."""
    build.use_threads(settings.threads)
    return trainer_of(component, config, build.load_model(folder, settings), settings, role)


def hosted_trainer(component: Component, config: TrainerConfig, folder: Path, settings: Settings, role: str) -> Any:
    """Return the trainer of a role as its process offers it."""
    return HostedTrainer(trainer_of_folder(component, config, folder, settings, role))


def trainer_of(component: Component, config: TrainerConfig, model: LanguageModel, settings: Settings, role: str) -> Any:
    """Return the trainer of a role, of a loaded model."""
    # A value head starts from random weights: from the run's own stream.
    with seeded(settings.seed, "role", role):
        return start("trainer", component, config, model)


def sampler_of_folder(component: Component, folder: Path, settings: Settings) -> HostedSampler:
    """Return a sampler with a model of its own, as its process offers it."""
    build.use_threads(settings.threads)
    return HostedSampler(sampler_of(component, build.load_model(folder, settings), settings))


def sampler_of(component: Component, model: LanguageModel, settings: Settings) -> Sampler:
    """Return a sampler of a loaded model; `precision` is the one that the trainer computes in."""
    offered = {"precision": choose_precision(settings.training.precision, model.device)}
    sampler: Sampler = start("sampler", component, model, offered=offered)
    return sampler


def hosted_manager(manager: Component, reward: Component) -> HostedManager:
    """Return the reward manager of a policy as its process offers it."""
    return HostedManager(start("reward_manager", manager, reward))


def hosted_environment(component: Component) -> HostedEnvironment:
    """Return an environment as its process offers it."""
    return HostedEnvironment(start("environment", component))


# -- what a run starts


def load_policies(experiment: Experiment, plan: Plan, model: LanguageModel, folder: Path) -> dict[str, LanguageModel]:
    """Return the model of each role from which a sampler draws; `model` is the first policy's, others load their own.

    Raises ModelError for a role's own model with another vocabulary than the first policy's.
    """
    models = {"trainer": model}
    for role in plan.drawn_from.values():
        if role not in models:
            settings = role_settings(experiment.settings, role)
            models[role] = build.load_model(model_folder(settings, role, model, folder), settings)
    return models


def model_folder(settings: Settings, role: str, model: LanguageModel, folder: Path) -> Path:
    """Return the folder of a role's model: its own, or the run's."""
    own = settings.roles.get(role, Role()).model
    return folder if own is None else build.own_model_folder(own, role, model)


def start_trainers(
    experiment: Experiment, plan: Plan, models: Mapping[str, LanguageModel], folder: Path, total_steps: int
) -> dict[str, Trainer]:
    """Return a trainer for each role whose weights the graph loads; `models` are those of policies.

    Raises ModelError for a role's own model with another vocabulary than the first policy's.
    """
    trainers: dict[str, Trainer] = {}
    for role in plan.roles:
        if role in plan.sampler_roles:
            continue
        settings = role_settings(experiment.settings, role)
        where = model_folder(settings, role, models["trainer"], folder)
        config = build.trainer_config(experiment, role, plan, total_steps, settings)
        if where != folder:
            config = replace(config, model=str(where))
        here = partial(trainer_of_folder, experiment.trainer, config, where, settings, role)
        there = partial(hosted_trainer, *here.args)
        if role in models and (role != "trainer" or where == folder):
            here = partial(trainer_of, experiment.trainer, config, models[role], settings, role)
        trainers[role] = start_role(settings, role, "trainer", here, there)
    return trainers


def start_sampler(
    experiment: Experiment, role: str, policy: str, models: Mapping[str, LanguageModel], folder: Path
) -> Sampler:
    """Return the sampler of a role, of the model of the policy role that it draws from or with weights of its own.

    It needs its own in a process of its own, and where it draws while the trainer updates its weights in place.
    """
    settings, model = role_settings(experiment.settings, role), models[policy]
    if policy != "trainer":
        folder = model_folder(settings, policy, models["trainer"], folder)
    if settings.max_weight_age and not in_process(settings, role):
        model = build.load_model(folder, settings)
    here = partial(sampler_of, experiment.sampler, model, settings)
    there = partial(sampler_of_folder, experiment.sampler, folder, settings)
    sampler: Sampler = start_role(settings, role, "sampler", here, there)
    return sampler


def start_environment(experiment: Experiment, environment: Component) -> Any:
    """Return the environment of a policy."""
    here = partial(start, "environment", environment)
    there = partial(hosted_environment, environment)
    return start_role(experiment.settings, ENVIRONMENT, "environment", here, there)


def close_roles(services: Sequence[Any]) -> None:
    """End what each service started; one that fails is told of and keeps none of the others from ending."""
    for service in services:
        close = getattr(service, "close", None)
        # An environment may be a class of episodes: each of these is closed by its session.
        if callable(close) and not isinstance(service, type):
            try:
                close()
            except Exception as error:  # noqa: BLE001 - of a role that is gone, or of a stranger's code
                log.warning("%s did not end well: %s: %s", type(service).__name__, type(error).__name__, error)
