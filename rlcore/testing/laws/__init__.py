"""Laws that every component of a kind must keep, as plain functions of it that raise AssertionError.

`LAWS[kind]` lists them; `applies(law, component)` tells whether the component reads the columns that a law is about.
Nothing here knows a component's name, and nothing needs pytest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType

from rlcore.component import reads
from rlcore.testing.laws import (
    corrections,
    estimators,
    every_component,
    factories,
    filters,
    gradients,
    kl,
    lifetimes,
    losses,
    reductions,
    rewards,
    rollouts,
    shaping,
)
from rlcore.testing.laws.inputs import (
    Columns,
    Component,
    Law,
    assert_no_trace,
    correction_columns,
    estimator_columns,
    filter_columns,
    loss_columns,
    shaping_columns,
)


def leaves_no_trace_on(make_columns: Callable[[], Columns]) -> Law:
    """Return the law that a call of a component on some columns changes nothing and depends on them alone."""

    def leaves_no_trace(component: Component) -> None:
        """A call changes neither its input nor the random state; a second call, and a copy, give the same result."""
        assert_no_trace(component, make_columns())

    return leaves_no_trace


def module_laws(module: ModuleType, prefix: str = "") -> tuple[Law, ...]:
    """Return the laws of a module: its own public functions, in order, whose names begin with `prefix`."""
    own = ((name, thing) for name, thing in vars(module).items() if inspect.isfunction(thing))
    return tuple(
        thing
        for name, thing in own
        if thing.__module__ == module.__name__ and name.startswith(prefix) and not name.startswith("_")
    )


ANY_LAWS = module_laws(every_component)
_COPIED = (every_component.survives_copying, every_component.options_bind)
_REWRITES = (*module_laws(corrections, "masks_and_weights_"), leaves_no_trace_on(correction_columns))
_TRACE_OF_LOSSES = leaves_no_trace_on(loss_columns)
LAWS: dict[str, tuple[Law, ...]] = {
    "advantage": (
        *ANY_LAWS,
        *module_laws(estimators),
        rollouts.unscored_rows_have_no_vote,
        rollouts.rows_without_a_trained_token_have_no_vote,
        rollouts.observations_have_no_say,
        rollouts.a_session_of_two_rows_is_one_rollout,
        leaves_no_trace_on(estimator_columns),
    ),
    "loss": (*ANY_LAWS, *module_laws(losses), gradients.gradients_are_those_of_the_value, _TRACE_OF_LOSSES),
    "reduction": (*ANY_LAWS, *module_laws(reductions), _TRACE_OF_LOSSES),
    "kl": (*ANY_LAWS, *module_laws(kl), gradients.kl_gradients_are_those_of_the_value, _TRACE_OF_LOSSES),
    "correction": (*ANY_LAWS, *_REWRITES, corrections.without_a_mismatch_nothing_is_corrected),
    "select": (*ANY_LAWS, *_REWRITES),
    "filter": (*ANY_LAWS, *module_laws(filters), leaves_no_trace_on(filter_columns)),
    "shaping": (*ANY_LAWS, *module_laws(shaping), leaves_no_trace_on(shaping_columns)),
    "reward": (*_COPIED, *module_laws(rewards, "rewards_")),
    "reward_manager": module_laws(rewards, "managers_"),
    "sampler": module_laws(lifetimes, "samplers_"),
    "trainer": module_laws(lifetimes, "trainers_"),
    "environment": module_laws(lifetimes, "environments_"),
    "tracker": module_laws(lifetimes, "trackers_"),
    "controller": (*_COPIED, *module_laws(factories, "controllers_")),
    "readout": module_laws(factories, "readouts_"),
    "optimizer": (every_component.options_bind, *module_laws(factories, "optimizers_")),
    "schedule": (every_component.options_bind, *module_laws(factories, "schedules_")),
    "dataset": (every_component.options_bind, *module_laws(factories, "datasets_")),
    "order": module_laws(factories, "orders_"),
    "weight_transfer": module_laws(factories, "weight_transfers_"),
    "model": module_laws(factories, "models_"),
    "experiment": module_laws(factories, "experiments_"),
}

_NEEDS: dict[Law, frozenset[str]] = {
    estimators.equal_rewards_have_no_advantage: frozenset({"group", "reward"}),
    estimators.group_names_mean_nothing: frozenset({"group"}),
    estimators.other_groups_have_no_say: frozenset({"group"}),
    # A filter that does not read the groups may keep a part of one.
    filters.filters_keep_groups_whole: frozenset({"group"}),
    corrections.without_a_mismatch_nothing_is_corrected: frozenset({"rollout_logprob"}),
    # The columns of a loss that does not read the mask are 0 off it, and its values there are never used.
    losses.nothing_off_the_mask_reaches_a_loss: frozenset({"mask"}),
    losses.on_policy_the_gradient_is_the_policy_gradient: frozenset({"logprob", "old_logprob", "advantage"}),
}


def applies(law: Law, component: Component) -> bool:
    """Return whether a component reads the columns that a law is about."""
    needed = _NEEDS.get(law)
    return needed is None or needed <= {read.name for read in reads(component)}
