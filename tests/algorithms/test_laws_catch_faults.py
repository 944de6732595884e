"""Laws are worth what they catch: components with one known fault each, and the law that names it."""

import pytest
import torch

from rlcore_algorithms.losses import clipped
from rlcore_algorithms.written import Weight
from tests.algorithms.laws import corrections, estimators, filters, kl, losses, reductions


def reshaped_groups(reward, group):
    """Source: members taken for neighbours."""
    if len(reward) % 2:
        return torch.zeros_like(reward)
    return (reward.view(-1, 2) - reward.view(-1, 2).mean(1, keepdim=True)).view(-1)


def raw_for_singletons(reward, group):
    """Source: the raw reward of a group of one is its advantage."""
    mean = torch.stack([reward[group == g].mean() if (group == g).sum() > 1 else reward.new_zeros(()) for g in group])
    return reward - mean


def rounded_spread(reward, group):
    """Source: equality decided by a rounded deviation against epsilon."""
    mean = torch.stack([reward[group == g].sum() * (1 / (group == g).sum()) for g in group])
    spread = torch.stack([reward[group == g].var(correction=0) for g in group])
    return (reward - mean * (1 + 1e-7)) / (spread.sqrt() + 1e-6)


def batch_mean(reward, group):
    """Source: one mean over all groups."""
    return reward - reward.mean()


def padding_counts(token_reward, length):
    """Source: what stands in the padding is part of the return."""
    return token_reward.flip(1).cumsum(1).flip(1)


def changes_its_input(reward, group):
    """Source: subtracts in place."""
    return reward.sub_(reward.mean())


def half_precision(reward, group):
    """Source: stays in the type it was given."""
    return reward - reward


def masked_by_product(logprob, old_logprob, advantage, mask):
    """Source: exp before the mask, and the mask as a factor."""
    return -(logprob - old_logprob).exp() * advantage * mask


def unclamped(logprob, old_logprob, advantage, mask):
    """Source: no clamp of the log ratio."""
    difference = torch.where(mask, logprob.float() - old_logprob.float(), 0)
    return -difference.exp() * torch.where(mask, advantage.float(), 0)


def batch_statistic(logprob, old_logprob, advantage, mask):
    """Source: divides by a statistic of the rows at hand."""
    loss = clipped(logprob, old_logprob, advantage, mask).loss
    return loss / mask.sum().clamp(min=1)


def detached_ratio(logprob, old_logprob, advantage, mask):
    """Source: the ratio has no gradient."""
    return clipped(logprob.detach(), old_logprob, advantage, mask).loss + 0 * torch.where(mask, logprob, 0)


def local_token_mean(mask, counts):
    """Source: tokens of the microbatch."""
    return mask.float() / mask.sum().clamp(min=1)


def padded_width(mask, counts):
    """Source: divides by the width of the batch."""
    return mask.float() / (counts.rows * mask.shape[1] or 1)


def counts_masked_rows(mask, counts):
    """Source: all-masked rows are in the denominator."""
    return mask.any(1).float() / len(mask)


def unguarded(mask, counts):
    """Source: no tokens, no guard."""
    return mask.float() / torch.tensor(counts.tokens)


def overflowing_k3(logprob, ref_logprob):
    """Source: no clamp."""
    d = ref_logprob.float() - logprob.float()
    return d.exp() - d - 1


def half_a_group(score, group):
    """Source: drops rows, not groups."""
    return (score > 0).nonzero().squeeze(1)


def forgets_the_kept_mass(old_logprob, rollout_logprob, mask):
    """Source: compares the whole distribution with a truncated one."""
    return Weight(torch.where(mask, (old_logprob.float() - rollout_logprob.float()).clamp(-20, 20).exp(), 0))


def overflowing_weight(old_logprob, rollout_logprob, kept_logmass, mask):
    """Source: no clamp of the log ratio."""
    return Weight(torch.where(mask, (old_logprob - kept_logmass - rollout_logprob).float().exp(), 0))


def multiplied_mask(old_logprob, rollout_logprob, kept_logmass, mask):
    """Source: the mask as a factor."""
    return Weight((old_logprob - kept_logmass - rollout_logprob).float().clamp(-20, 20).exp() * mask)


def drops_by_place(logprob, mask):
    """Source: takes the first rows."""
    return Weight(mask.float() * (torch.arange(len(mask)) < 4)[:, None])


def narrows_in_place(logprob, mask):
    """Source: writes into what it was handed."""
    return Weight(mask.logical_and_(logprob > -1).float())


@pytest.mark.parametrize(
    ("component", "law"),
    [
        (reshaped_groups, estimators.estimates_follow_the_rows),
        (raw_for_singletons, estimators.estimates_of_a_single_row_are_finite),
        (rounded_spread, estimators.equal_rewards_have_no_advantage),
        (batch_mean, estimators.other_groups_have_no_say),
        (padding_counts, estimators.estimates_ignore_padding),
        (changes_its_input, estimators.estimates_leave_their_input),
        (half_precision, estimators.estimates_keep_the_type),
        (masked_by_product, losses.nothing_off_the_mask_reaches_a_loss),
        (unclamped, losses.losses_stay_finite_at_extreme_ratios),
        (batch_statistic, losses.splits_change_no_loss),
        (detached_ratio, losses.on_policy_the_gradient_is_the_policy_gradient),
        (local_token_mean, reductions.splits_change_no_weight),
        (padded_width, reductions.padding_changes_no_weight),
        (counts_masked_rows, reductions.masked_rows_change_no_weight),
        (unguarded, reductions.nothing_to_train_on_weighs_nothing),
        (overflowing_k3, kl.kl_stays_finite),
        (half_a_group, filters.filters_keep_groups_whole),
        (forgets_the_kept_mass, corrections.without_a_mismatch_nothing_is_corrected),
        (overflowing_weight, corrections.masks_and_weights_stay_finite),
        (multiplied_mask, corrections.masks_and_weights_ignore_what_is_off_the_mask),
        (drops_by_place, corrections.masks_and_weights_follow_the_rows),
        (narrows_in_place, corrections.masks_and_weights_leave_their_input),
    ],
    ids=lambda x: x.__name__,
)
def test_a_law_catches_the_fault_that_it_is_about(component, law):
    with pytest.raises((AssertionError, RuntimeError)):
        law(component)
