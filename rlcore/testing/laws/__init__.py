"""Laws that every component of a kind must keep, as plain functions of it that raise AssertionError.

`LAWS[kind]` lists them; `applies(law, component)` tells whether a law speaks of this component (by the columns it
reads). Nothing here knows a component's name, and nothing needs pytest.
"""

from __future__ import annotations

from rlcore.component import reads
from rlcore.testing.laws import (
    anything,
    corrections,
    estimators,
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
from rlcore.testing.laws.inputs import Component, Law

ANY_LAWS: tuple[Law, ...] = (anything.names_its_source, anything.survives_copying, anything.options_bind)
_REWRITES: tuple[Law, ...] = (
    corrections.masks_and_weights_are_shaped,
    corrections.masks_and_weights_follow_the_rows,
    corrections.masks_and_weights_ignore_what_is_off_the_mask,
    corrections.masks_and_weights_of_nothing_are_nothing,
    corrections.masks_and_weights_stay_finite,
    corrections.masks_and_weights_leave_their_input,
)
LAWS: dict[str, tuple[Law, ...]] = {
    "advantage": (
        *ANY_LAWS,
        estimators.estimates_are_finite_and_shaped,
        estimators.estimates_follow_the_rows,
        estimators.estimates_ignore_padding,
        estimators.estimates_of_a_single_row_are_finite,
        estimators.equal_rewards_have_no_advantage,
        estimators.group_names_mean_nothing,
        estimators.other_groups_have_no_say,
        estimators.estimates_leave_their_input,
        estimators.estimates_read_only_what_they_name,
        estimators.copies_estimate_the_same,
        estimators.estimates_keep_the_type,
        rollouts.unscored_rows_have_no_vote,
        rollouts.rows_without_a_trained_token_have_no_vote,
        rollouts.observations_have_no_say,
        rollouts.a_session_of_two_rows_is_one_rollout,
    ),
    "loss": (
        *ANY_LAWS,
        losses.losses_are_shaped_and_0_off_the_mask,
        losses.nothing_off_the_mask_reaches_a_loss,
        losses.a_loss_with_everything_masked_is_0,
        losses.an_all_masked_row_changes_nothing,
        losses.splits_change_no_loss,
        losses.losses_ignore_padding,
        losses.losses_are_computed_in_float32,
        losses.losses_stay_finite_at_extreme_ratios,
        losses.on_policy_the_gradient_is_the_policy_gradient,
        losses.losses_leave_no_trace,
        gradients.gradients_are_those_of_the_value,
    ),
    "reduction": (
        *ANY_LAWS,
        reductions.reduction_weights_are_shaped_and_0_off_the_mask,
        reductions.splits_change_no_weight,
        reductions.padding_changes_no_weight,
        reductions.masked_rows_change_no_weight,
        reductions.nothing_to_train_on_weighs_nothing,
        reductions.reductions_leave_no_trace,
    ),
    "kl": (
        *ANY_LAWS,
        kl.kl_is_0_between_equals,
        kl.kl_stays_finite,
        kl.kl_is_known_token_by_token,
        kl.kl_leaves_no_trace,
        gradients.kl_gradients_are_those_of_the_value,
    ),
    "correction": (*ANY_LAWS, *_REWRITES, corrections.without_a_mismatch_nothing_is_corrected),
    "select": (*ANY_LAWS, *_REWRITES),
    "filter": (
        *ANY_LAWS,
        filters.filters_return_rows_they_were_given,
        filters.filters_keep_groups_whole,
        filters.filters_follow_the_rows,
        filters.filters_take_nothing_from_nothing,
    ),
    "shaping": (
        *ANY_LAWS,
        shaping.shaped_rows_are_finite_and_shaped,
        shaping.both_forms_of_the_reward_agree,
        shaping.shaping_follows_the_rows,
        shaping.shaping_leaves_no_trace,
    ),
    "reward": (
        anything.survives_copying,
        anything.options_bind,
        rewards.rewards_return_a_score,
        rewards.rewards_refuse_rows_by_value_errors,
        rewards.rewards_never_raise_on_hostile_text,
        rewards.rewards_are_deterministic,
    ),
    "reward_manager": (
        rewards.managers_keep_the_order,
        rewards.managers_keep_a_failure_to_its_row,
        rewards.managers_tell_unscored_from_0,
        rewards.managers_stop_what_takes_too_long,
        rewards.managers_keep_a_failing_part_apart,
    ),
    "sampler": (
        lifetimes.samplers_answer_every_request,
        lifetimes.samplers_depend_on_the_request_alone,
        lifetimes.samplers_hear_the_seed,
        lifetimes.samplers_say_why_they_stopped,
    ),
    "trainer": (
        lifetimes.trainers_read_log_probabilities,
        lifetimes.trainers_read_rows_in_any_order,
        lifetimes.trainers_update_and_come_back,
    ),
    "environment": (lifetimes.environments_begin_and_end, lifetimes.environments_are_deterministic),
    "tracker": (lifetimes.trackers_take_whatever_is_measured, lifetimes.trackers_leave_the_metrics),
    "controller": (anything.survives_copying, anything.options_bind, factories.controllers_write_finite_numbers),
    "readout": (factories.readouts_are_one_number_a_token, factories.readouts_read_each_token_alone),
    "optimizer": (anything.options_bind, factories.optimizers_go_down_the_gradient, factories.optimizers_come_back),
    "schedule": (anything.options_bind, factories.schedules_stay_between_0_and_1),
    "dataset": (anything.options_bind, factories.datasets_give_rows),
    "order": (factories.orders_draw_from_the_rows, factories.orders_come_back),
    "weight_transfer": (factories.weight_transfers_give_the_version,),
    "model": (factories.models_are_folders,),
    "experiment": (factories.experiments_are_files_of_their_package,),
}

_NEEDS: dict[Law, frozenset[str]] = {
    estimators.equal_rewards_have_no_advantage: frozenset({"group", "reward"}),
    estimators.group_names_mean_nothing: frozenset({"group"}),
    estimators.other_groups_have_no_say: frozenset({"group"}),
    # Who is not told the groups works on rows, and is listed so.
    filters.filters_keep_groups_whole: frozenset({"group"}),
    corrections.without_a_mismatch_nothing_is_corrected: frozenset({"rollout_logprob"}),
    # A loss that does not read the mask is handed 0 off it, and is selected by the mask afterwards.
    losses.nothing_off_the_mask_reaches_a_loss: frozenset({"mask"}),
    losses.on_policy_the_gradient_is_the_policy_gradient: frozenset({"logprob", "old_logprob", "advantage"}),
}


def applies(law: Law, component: Component) -> bool:
    """Tell whether a law speaks of this component: whether it reads the columns that the law is about."""
    needed = _NEEDS.get(law)
    return needed is None or needed <= {read.name for read in reads(component)}
