"""Laws that every component of a kind must keep, as plain functions of it that raise AssertionError.

`LAWS[kind]` lists them; `applies(law, component)` tells whether a law speaks of this component (by the columns it
reads). Nothing here knows a component's name, and nothing needs pytest.
"""

from __future__ import annotations

from rlcore.component import reads
from tests.algorithms.laws import anything, corrections, estimators, filters, kl, losses, reductions, rollouts
from tests.algorithms.laws.inputs import Component, Law

_ANY: tuple[Law, ...] = (anything.names_its_source, anything.survives_copying)
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
        *_ANY,
        estimators.estimates_are_finite_and_shaped,
        estimators.estimates_follow_the_rows,
        estimators.estimates_ignore_padding,
        estimators.estimates_of_a_single_row_are_finite,
        estimators.equal_rewards_have_no_advantage,
        estimators.group_names_mean_nothing,
        estimators.other_groups_have_no_say,
        estimators.estimates_leave_their_input,
        estimators.estimates_keep_the_type,
        rollouts.unscored_rows_have_no_vote,
        rollouts.rows_without_a_trained_token_have_no_vote,
        rollouts.observations_have_no_say,
        rollouts.a_session_of_two_rows_is_one_rollout,
    ),
    "loss": (
        *_ANY,
        losses.losses_are_shaped_and_0_off_the_mask,
        losses.nothing_off_the_mask_reaches_a_loss,
        losses.a_loss_with_everything_masked_is_0,
        losses.an_all_masked_row_changes_nothing,
        losses.splits_change_no_loss,
        losses.losses_ignore_padding,
        losses.losses_are_computed_in_float32,
        losses.losses_stay_finite_at_extreme_ratios,
        losses.on_policy_the_gradient_is_the_policy_gradient,
    ),
    "reduction": (
        *_ANY,
        reductions.reduction_weights_are_shaped_and_0_off_the_mask,
        reductions.splits_change_no_weight,
        reductions.padding_changes_no_weight,
        reductions.masked_rows_change_no_weight,
        reductions.nothing_to_train_on_weighs_nothing,
    ),
    "kl": (*_ANY, kl.kl_is_0_between_equals, kl.kl_stays_finite, kl.kl_is_known_token_by_token),
    "correction": (*_ANY, *_REWRITES, corrections.without_a_mismatch_nothing_is_corrected),
    "select": (*_ANY, *_REWRITES),
    "filter": (
        *_ANY,
        filters.filters_return_rows_they_were_given,
        filters.filters_keep_groups_whole,
        filters.filters_follow_the_rows,
        filters.filters_take_nothing_from_nothing,
    ),
}

_NEEDS: dict[Law, frozenset[str]] = {
    estimators.equal_rewards_have_no_advantage: frozenset({"group", "reward"}),
    estimators.group_names_mean_nothing: frozenset({"group"}),
    estimators.other_groups_have_no_say: frozenset({"group"}),
    # Who is not told the groups works on rows, and is listed so.
    filters.filters_keep_groups_whole: frozenset({"group"}),
    corrections.without_a_mismatch_nothing_is_corrected: frozenset({"old_logprob", "rollout_logprob"}),
    # A loss that does not read the mask is handed 0 off it, and is selected by the mask afterwards.
    losses.nothing_off_the_mask_reaches_a_loss: frozenset({"mask"}),
    losses.on_policy_the_gradient_is_the_policy_gradient: frozenset({"logprob", "old_logprob", "advantage"}),
}


def applies(law: Law, component: Component) -> bool:
    """Tell whether a law speaks of this component: whether it reads the columns that the law is about."""
    return _NEEDS.get(law, frozenset()) <= {read.name for read in reads(component)}
