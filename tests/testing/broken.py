"""A shelf of broken components: each has one fault, and `SHELF` says which check must name it."""

import asyncio
import random

import torch

from rlcore.math import PlacedReward
from rlcore.metrics import Metrics
from rlcore.protocols import (
    Completion,
    Episode,
    Graded,
    Reply,
    RewardManager,
    Sampler,
    Stop,
    TurnEnvironment,
    UpdateResult,
)
from rlcore_algorithms.losses import clipped
from rlcore_algorithms.outputs import Weight
from rlcore_rewards.managers import DefaultManager


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


def reads_the_rows_twice(reward, group, *, scale):
    """Source: an option without annotation and default."""
    return scale * (reward - reward)


def without_a_word(reward, group):
    return torch.zeros_like(reward)


def draws_at_random(reward, group):
    """Source: the global generator breaks ties."""
    return (reward - reward) + 1e-3 * torch.rand(len(reward)) * 0


def sorted_groups(reward, group):
    """Source: the id of a group decides."""
    return (reward - reward) + torch.sign(group - group.float().mean()).to(reward.dtype) * 0.1


def wrong_sign(logprob, old_logprob, advantage, mask):
    """Source: the ascent taken for descent."""
    return -clipped(logprob, old_logprob, advantage, mask).loss


def gradient_of_another_loss(logprob, old_logprob, advantage, mask):
    """Source: a gradient that is not the value's."""
    return _Doubled.apply(clipped(logprob, old_logprob, advantage, mask).loss)


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


def half_stays_half(logprob, old_logprob, advantage, mask):
    """Source: computes in the type that it is given."""
    return torch.where(mask, -advantage * logprob, 0)


def distance_of_the_batch(logprob, ref_logprob):
    """Source: takes off the mean of all tokens."""
    d = (logprob - ref_logprob).clamp(-20, 20)
    return d - d.mean()


def not_0_between_equals(logprob, ref_logprob):
    """Source: forgets the 1."""
    return (
        (ref_logprob.double() - logprob.double())
        .clamp(-20, 20)
        .exp()
        .to(torch.promote_types(logprob.dtype, torch.float32))
    )


def names_rows_by_mask(score, group):
    """Source: a mask is no list of rows."""
    return score > 0


def keeps_the_first(score, group):
    """Source: the first rows only."""
    return torch.arange(min(len(score), 5))


def only_one_form(reward, token_reward, sampled):
    """Source: changes the sum and not the tokens."""
    return PlacedReward(reward - 1, token_reward)


def penalty_in_padding(reward, token_reward, sampled):
    """Source: spreads a penalty over the whole row."""
    share = torch.full_like(token_reward, 0.1)
    return PlacedReward(reward - share.sum(1), token_reward - share)


def first_is_special(reward, token_reward, sampled):
    """Source: the first row pays."""
    cost = torch.zeros_like(token_reward)
    cost[0] = sampled[0].float()
    return PlacedReward(reward - cost.sum(1), token_reward - cost)


def raises_on_text(completion, target):
    return float(completion == str(int(target)) or int(completion))


def different_every_time(completion):
    return random.random()


def says_words(completion):
    return "good"


class Manager(RewardManager):
    """Lets a failure through."""

    def __init__(self, reward):
        self.reward = reward

    def score(self, samples):
        return [Graded(self.reward(sample.completion)) for sample in samples]


class ForgetfulManager(Manager):
    """Calls everything that fails 0."""

    def score(self, samples):
        grades = []
        for sample in samples:
            try:
                grades.append(Graded(float(self.reward(sample.completion))))
            except (TypeError, ValueError):
                grades.append(Graded(0.0))
        return grades


class ShuffledManager(Manager):
    """As they are done."""

    def score(self, samples):
        return sorted(super().score(samples), key=lambda grade: grade.score)


class UnpunctualManager(DefaultManager):
    """Takes a limit and leaves it at that."""

    def __init__(self, reward, *, seconds: float = 60.0):
        super().__init__(reward, seconds=None)


class LenientManager(DefaultManager):
    """Sums what is there: of several parts a failing one counts like one that does not apply."""

    def score(self, samples):
        grades = super().score(samples)
        return [Graded(sum(one.components.values()), one.components) if one.components else one for one in grades]


def refuses_by_assertion(completion):
    """A row check that fails otherwise than by ValueError."""
    return 1.0


def by_assertion(data):
    assert data["target"]


refuses_by_assertion.check_row = by_assertion


class FairSampler(Sampler):
    """Four ids, equally likely; the request's seed decides."""

    reports_kept_logmass = True

    def update_weights(self, weights, version):
        self.version = version

    def random(self, request):
        return random.Random(f"{request.seed}{request.prompt}")

    async def sample(self, request):
        return self.draw(request, self.random(request))

    def draw(self, request, draw):
        count = draw.randint(1, request.params.max_new_tokens)
        tokens = [draw.randrange(4) for _ in range(count)]
        cut = count == request.params.max_new_tokens
        return Completion(
            tokens, [-1.386] * count, [0.0] * count, Stop.LENGTH if cut else Stop.FINISHED, [self.version] * count
        )


class OneGenerator(FairSampler):
    """One generator for all requests."""

    def __init__(self):
        self.generator = random.Random(0)

    def random(self, request):
        return self.generator


class DeafSampler(FairSampler):
    """Never hears the seed."""

    def random(self, request):
        return random.Random(f"{request.prompt}")


class AlwaysCut(FairSampler):
    """Says of everything that it was cut off."""

    def draw(self, request, draw):
        made = super().draw(request, draw)
        return Completion(made.tokens, made.logprob, made.kept_logmass, Stop.LENGTH, made.versions)


class ForgetsTheFirst(FairSampler):
    """One log-probability too few."""

    def draw(self, request, draw):
        made = super().draw(request, draw)
        return Completion(made.tokens, made.logprob[1:], made.kept_logmass, made.stop, made.versions)


class TokenByToken(FairSampler):
    """Draws one token each time its turn comes, and stands still while it is paused."""

    def __init__(self):
        self.running, self.aborted = asyncio.Event(), False
        self.running.set()

    async def sample(self, request):
        whole, tokens = await super().sample(request), []
        for token in whole.tokens:
            await asyncio.sleep(0)
            await self.running.wait()
            if self.aborted:
                break
            tokens.append(self.drawn(request, token))
        n = len(tokens)
        stop = whole.stop if n == len(whole.tokens) else Stop.ABORTED
        return Completion(tokens, whole.logprob[:n], whole.kept_logmass[:n], stop, whole.versions[:n])

    def drawn(self, request, token):
        return token

    async def abort(self):
        self.aborted = True

    async def pause(self):
        self.running.clear()

    async def resume(self):
        self.running.set()


class NeverWaits(TokenByToken):
    """Goes on while it is paused."""

    async def pause(self):
        pass


class WakesUpAnother(TokenByToken):
    """Draws other tokens after a pause."""

    woken = False

    def drawn(self, request, token):
        return (token + self.woken) % 4

    async def pause(self):
        self.woken = True
        await super().pause()


class FinishedByForce(TokenByToken):
    """Says of what was aborted that it had ended by itself."""

    async def sample(self, request):
        made = await super().sample(request)
        stop = Stop.FINISHED if made.stop is Stop.ABORTED else made.stop
        return Completion(made.tokens, made.logprob, made.kept_logmass, stop, made.versions)


class OneDesk(FairSampler):
    """Keeps the request that it works on where the next one finds it."""

    async def sample(self, request):
        self.request = request
        await asyncio.sleep(0)
        return self.draw(self.request, self.random(self.request))


class KeepsItsVersion(FairSampler):
    """Takes weights, and says that it drew with those before."""

    def draw(self, request, draw):
        made = super().draw(request, draw)
        return Completion(made.tokens, made.logprob, made.kept_logmass, made.stop, [0] * len(made.tokens))


class CountsAlong(Episode):
    """Says how many turns it has had; where it counts is another's to say."""

    def __init__(self, counter):
        self.counter = counter

    async def begin(self):
        return "count"

    async def step(self, turn):
        self.counter["turns"] += 1
        return Reply(f"turn {self.counter['turns']}", stop=self.counter["turns"] > 6)

    def state_dict(self):
        return dict(self.counter)

    def load_state_dict(self, state):
        self.counter.update(state)


class CountsApart:
    """Every episode counts for itself."""

    def __call__(self, row, *, seed):
        return CountsAlong({"turns": 0})


class CountsTogether:
    """All episodes count in one place."""

    def __init__(self):
        self.counter = {"turns": 0}

    def __call__(self, row, *, seed):
        return CountsAlong(self.counter)


class LosesCount(CountsApart):
    """An episode that is put back begins to count anew."""

    def __call__(self, row, *, seed):
        episode = CountsAlong({"turns": 0})
        episode.load_state_dict = lambda state: None
        return episode


class Endless(TurnEnvironment):
    """Always has an answer."""

    def begin(self, row):
        return row["prompt"]

    def reply(self, row, turns):
        return "go on"


class Remembers(Endless):
    """Writes into the row."""

    def begin(self, row):
        row["seen"] = True
        return row["prompt"]

    def reply(self, row, turns):
        return None


class Strict:
    """Chokes on what is not finite, and takes the metrics away."""

    def start(self, *, run, project, config, folder):
        pass

    def log(self, step, metrics):
        assert all(value == value for value in metrics.values())

    def finish(self):
        pass


class Greedy(Strict):
    """Empties what it is handed."""

    def log(self, step, metrics):
        metrics.clear()


class TableTrainer:
    """A table of log-probabilities by id, moved by the gradient's sign: a trainer small enough to be read."""

    readouts, frozen = frozenset({"logprob"}), False

    def __init__(self):
        self.version, self.table = 0, torch.zeros(4)

    def weights(self):
        return {"table": self.table}

    def forward(self, batch, wanted, *, temperature):
        values = torch.log_softmax(self.table, 0)[batch.flat("tokens")]
        return {name: torch.where(batch.flat("sampled"), values, 0) for name in wanted}

    def update(self, batch, update, *, seed, temperature, scalars, max_new_tokens):
        self.version, self.table = self.version + 1, self.table + torch.arange(4)
        return UpdateResult(Metrics(), finite=True)

    def state_dict(self):
        return {"version": self.version, "table": self.table.clone()}

    def load_state_dict(self, state):
        self.version, self.table = state["version"], state["table"].clone()

    def save_model(self, folder):
        pass


class LeakyTrainer(TableTrainer):
    """Says something where nothing was sampled."""

    def forward(self, batch, wanted, *, temperature):
        return {name: torch.log_softmax(self.table, 0)[batch.flat("tokens")] for name in wanted}


class AmnesicTrainer(TableTrainer):
    """Saves its version and not its weights."""

    def load_state_dict(self, state):
        self.version = state["version"]


class NeighbourlyTrainer(TableTrainer):
    """Looks at the rows beside."""

    def forward(self, batch, wanted, *, temperature):
        found = super().forward(batch, wanted, temperature=temperature)
        first = batch.flat("tokens")[0]
        return {name: x - 0.01 * (1 + first) * batch.flat("sampled") for name, x in found.items()}


SHELF = [
    ("advantage", reshaped_groups, "estimates_follow_the_rows"),
    ("advantage", raw_for_singletons, "estimates_of_a_single_row_are_finite"),
    ("advantage", rounded_spread, "equal_rewards_have_no_advantage"),
    ("advantage", batch_mean, "other_groups_have_no_say"),
    ("advantage", padding_counts, "estimates_ignore_padding"),
    ("advantage", changes_its_input, "leaves_no_trace"),
    ("advantage", half_precision, "estimates_keep_the_type"),
    ("advantage", reads_the_rows_twice, "has_a_signature_that_can_be_bound"),
    ("advantage", without_a_word, "names_its_source"),
    ("advantage", draws_at_random, "leaves_no_trace"),
    ("advantage", sorted_groups, "group_names_mean_nothing"),
    ("loss", masked_by_product, "nothing_off_the_mask_reaches_a_loss"),
    ("loss", unclamped, "losses_stay_finite_at_extreme_ratios"),
    ("loss", batch_statistic, "splits_change_no_loss"),
    ("loss", detached_ratio, "on_policy_the_gradient_is_the_policy_gradient"),
    ("loss", wrong_sign, "on_policy_the_gradient_is_the_policy_gradient"),
    ("loss", gradient_of_another_loss, "gradients_are_those_of_the_value"),
    ("loss", half_stays_half, "losses_are_computed_in_float32"),
    ("reduction", local_token_mean, "splits_change_no_weight"),
    ("reduction", padded_width, "padding_changes_no_weight"),
    ("reduction", counts_masked_rows, "masked_rows_change_no_weight"),
    ("reduction", unguarded, "nothing_to_train_on_weighs_nothing"),
    ("kl", overflowing_k3, "kl_stays_finite"),
    ("kl", distance_of_the_batch, "kl_is_known_token_by_token"),
    ("kl", not_0_between_equals, "kl_is_0_between_equals"),
    ("filter", half_a_group, "filters_keep_groups_whole"),
    ("filter", names_rows_by_mask, "filters_return_rows_they_were_given"),
    ("filter", keeps_the_first, "filters_follow_the_rows"),
    ("correction", forgets_the_kept_mass, "without_a_mismatch_nothing_is_corrected"),
    ("correction", overflowing_weight, "masks_and_weights_stay_finite"),
    ("correction", multiplied_mask, "masks_and_weights_ignore_what_is_off_the_mask"),
    ("select", drops_by_place, "masks_and_weights_follow_the_rows"),
    ("select", narrows_in_place, "leaves_no_trace"),
    ("shaping", only_one_form, "both_forms_of_the_reward_agree"),
    ("shaping", penalty_in_padding, "shaped_rows_are_finite_and_shaped"),
    ("shaping", first_is_special, "shaping_follows_the_rows"),
    ("reward", raises_on_text, "rewards_never_raise_on_hostile_text"),
    ("reward", different_every_time, "rewards_are_deterministic"),
    ("reward", says_words, "rewards_return_a_score"),
    ("reward", refuses_by_assertion, "rewards_refuse_rows_by_value_errors"),
    ("reward_manager", Manager, "managers_keep_a_failure_to_its_row"),
    ("reward_manager", ForgetfulManager, "managers_tell_unscored_from_0"),
    ("reward_manager", ShuffledManager, "managers_keep_the_order"),
    ("reward_manager", UnpunctualManager, "managers_stop_what_takes_too_long"),
    ("reward_manager", LenientManager, "managers_keep_a_failing_part_apart"),
    ("sampler", OneGenerator, "samplers_depend_on_the_request_alone"),
    ("sampler", DeafSampler, "samplers_hear_the_seed"),
    ("sampler", AlwaysCut, "samplers_say_why_they_stopped"),
    ("sampler", ForgetsTheFirst, "samplers_answer_every_request"),
    ("sampler", OneDesk, "samplers_answer_many_at_once"),
    ("sampler", KeepsItsVersion, "samplers_hold_what_they_were_given"),
    ("sampler", NeverWaits, "samplers_wait_while_paused"),
    ("sampler", WakesUpAnother, "samplers_wait_while_paused"),
    ("sampler", FinishedByForce, "samplers_answer_what_they_abort"),
    ("environment", CountsTogether, "environments_keep_their_episodes_apart"),
    ("environment", LosesCount, "environments_can_be_put_back"),
    ("environment", Endless, "environments_begin_and_end"),
    ("environment", Remembers, "environments_are_deterministic"),
    ("tracker", Strict, "trackers_take_whatever_is_measured"),
    ("tracker", Greedy, "trackers_leave_the_metrics"),
    ("trainer", LeakyTrainer, "trainers_read_log_probabilities"),
    ("trainer", AmnesicTrainer, "trainers_update_and_come_back"),
    ("trainer", NeighbourlyTrainer, "trainers_read_rows_in_any_order"),
]
"""Kind, broken thing, and the check that names its fault."""

SOUND = [
    ("sampler", FairSampler),
    ("sampler", TokenByToken),
    ("environment", CountsApart),
    ("trainer", TableTrainer),
]
"""What the broken ones are made of, without the fault."""
