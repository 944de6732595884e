"""Sessions of many turns: all open at once, each at its own pace; episodes that remember, fail and restart."""

import asyncio
import math
from dataclasses import replace

import pytest
import torch

from rlcore.columns import COLUMNS
from rlcore.data.chat import encode_prompt
from rlcore.errors import RunError
from rlcore.event_loop import event_loop, wait_for
from rlcore.execute.rollout import Rollout
from rlcore.math import place_turn_rewards
from rlcore.protocols import Episode, Reply, Request, SamplingParams, Stop
from rlcore.sample.cache import DecodeLayout
from rlcore.sample.decoder import FusedDecoder
from rlcore.sample.embedded import EmbeddedSampler
from rlcore.sample.stops import StopText
from rlcore.seeding import stream
from rlcore_algorithms import remax
from rlcore_rewards.turns import environment_reward
from tests.execute.fakes import TOKENIZER, FakeSampler, decode, encode, executor
from tests.tiny import make_tiny

TURNS = 4
PARAMS = SamplingParams(max_new_tokens=60, stop=("after some tokens",))


class Clock:
    """Time that passes only while the sampler has nothing to do."""

    def __init__(self, sampler):
        self.now, self.sampler, self.sleepers, self.open, self.most = 0.0, sampler, [], 0, 0

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        self.sleepers.append((self.now + seconds, woken))
        await woken

    async def tick(self):
        idle = 0
        while True:
            await asyncio.sleep(0)
            flight = self.sampler._flight
            idle = idle + 1 if flight is None or flight.idle else 0
            # Not at once: those who were just answered or woken have yet to ask for more.
            if self.sleepers and idle > 5:
                idle = 0
                self.now = min(until for until, _ in self.sleepers)
                due = [woken for until, woken in self.sleepers if until <= self.now]
                self.sleepers = [sleeper for sleeper in self.sleepers if sleeper[0] > self.now]
                for woken in due:
                    woken.set_result(None)


class Slow(Episode):
    """Answers after twenty milliseconds, three times."""

    def __init__(self, clock, row):
        self.clock, self.row, self.turns = clock, row, 0

    async def begin(self):
        self.clock.open += 1
        self.clock.most = max(self.clock.most, self.clock.open)
        return self.row["prompt"]

    async def step(self, turn):
        await self.clock.sleep(0.02)
        self.turns += 1
        return Reply(f"<{self.turns}>") if self.turns < TURNS else None

    async def close(self):
        self.clock.open -= 1


def ends_a_turn(self, stops, tokens):
    """Stands for a stop string that comes after eight to twelve tokens."""
    return len(tokens) >= 8 + tokens[0] % 5


def in_lock_step(model, rows, seed, slots):
    """The tokens and masks of the same sessions, turn by turn: the slowest of a turn holds all others."""
    sampler = EmbeddedSampler(model, max_rows=slots)
    tokens = [encode_prompt(TOKENIZER, row["prompt"]) for row in rows]
    sampled = [[False] * len(ids) for ids in tokens]
    drawn, open_ = [0] * len(rows), list(range(len(rows)))
    for turn in range(TURNS):
        requests = [
            Request(
                tuple(tokens[i]),
                replace(PARAMS, max_new_tokens=PARAMS.max_new_tokens - drawn[i]),
                stream(seed, "sample", i, 0, turn),
            )
            for i in open_
        ]
        still = []
        for i, completion in zip(open_, sampler.generate(requests), strict=True):
            tokens[i] += completion.tokens
            sampled[i] += [True] * len(completion.tokens)
            drawn[i] += len(completion.tokens)
            if completion.stop is Stop.FINISHED and turn + 1 < TURNS:
                observed = encode(f"<{turn + 1}>")
                tokens[i] += observed
                sampled[i] += [False] * len(observed)
                still.append(i)
        open_ = still
    return tokens, sampled


@pytest.mark.parametrize(("count", "slots"), [(200, 32), pytest.param(1000, 128, marks=pytest.mark.slow)])
def test_sessions_of_four_turns_are_open_at_once(monkeypatch, count, slots):
    model = make_tiny()
    model.eos_ids = ()
    monkeypatch.setattr(StopText, "completed", ends_a_turn)
    rows = [{"prompt": f"{i % 97}+{i % 89}="} for i in range(count)]
    sampler = EmbeddedSampler(model, max_rows=slots)
    clock, steps = Clock(sampler), []
    plain = FusedDecoder.step

    def counted(self, tokens, position, layout):
        if isinstance(layout, DecodeLayout):
            steps.append(len(tokens))
        return plain(self, tokens, position, layout)

    monkeypatch.setattr(FusedDecoder, "step", counted)
    ticking = asyncio.run_coroutine_threadsafe(clock.tick(), event_loop())
    rollout = Rollout(sampler, TOKENIZER, lambda row, *, seed: Slow(clock, row), PARAMS, 0, decode)
    batch = rollout.draw(range(count), rows, samples=1, table=COLUMNS)
    ticking.cancel()
    assert clock.most == count
    assert clock.now <= 0.1
    # The first token of a turn comes from its prompt, the others from a step each.
    drawn, turns = int(batch["sampled"].sum()), 0
    for row in range(count):
        on = batch["sampled"][row].int()
        turns += int((on.diff(prepend=torch.zeros(1, dtype=on.dtype)) == 1).sum())
    ideal = math.ceil((drawn - turns) / slots)
    assert len(steps) <= 1.3 * ideal, (len(steps), ideal)
    tokens, sampled = in_lock_step(model, rows, 0, slots)
    length = batch["length"].tolist()
    assert [ids[:n] for ids, n in zip(batch["tokens"].tolist(), length, strict=True)] == tokens
    assert [on[:n] for on, n in zip(batch["sampled"].tolist(), length, strict=True)] == sampled


# -- what an episode may do


class Scripted(Episode):
    """Does what a test says: begins with the row's prompt, and replies what `script(turns)` gives."""

    def __init__(self, row, script, closed):
        self.row, self.script, self.closed, self.turns = row, script, closed, []

    async def begin(self):
        return self.row["prompt"]

    async def step(self, turn):
        self.turns.append(turn)
        found = self.script(self.row, self.turns)
        return await found if asyncio.iscoroutine(found) else found

    async def close(self):
        self.closed.append(self.row["prompt"])


def play(script, prompts=("1", "2"), *, sampler=None, samples=1, **options):
    """The batch of a rollout, the sampler and the prompts of the episodes that were closed."""
    closed, sampler = [], sampler or FakeSampler(lambda request, number: "ab")
    rollout = Rollout(
        sampler, TOKENIZER, lambda row, *, seed: Scripted(row, script, closed), PARAMS, 0, decode, **options
    )
    rows = [{"prompt": prompt} for prompt in prompts]
    return rollout.draw(range(len(rows)), rows, samples=samples, table=COLUMNS), sampler, closed


def test_u33_an_episode_that_raises_ends_its_own_session_alone(caplog):
    """The run ended with a bare exception."""

    def script(row, turns):
        if row["prompt"] == "1":
            raise ValueError("the tool is broken")

    batch, _, closed = play(script)
    assert batch["stop"].tolist() == [int(Stop.ENVIRONMENT_ERROR), int(Stop.FINISHED)]
    assert sorted(closed) == ["1", "2"], "every episode is closed"
    assert "1 of 2 episodes of environment function raised" in caplog.text
    assert "the tool is broken" in caplog.text
    assert "in script" in caplog.text


@pytest.mark.parametrize("prompts", [("1",), ("1", "2")])
def test_where_every_episode_raises_the_run_stops_with_the_first_traceback(prompts):
    def script(row, turns):
        raise ValueError("the tool is broken")

    with pytest.raises(RunError, match=r"(?s)every episode of environment .* raised an error.*the tool is broken"):
        play(script, prompts)


def test_an_episode_that_fails_at_its_beginning_leaves_a_row_on_which_nothing_is_trained():
    class Broken(Scripted):
        async def begin(self):
            if self.row["prompt"] == "1":
                raise OSError("no such game")
            return self.row["prompt"]

    rollout = Rollout(
        FakeSampler(lambda request, number: "ab"),
        TOKENIZER,
        lambda row, *, seed: Broken(row, lambda row, turns: None, []),
        PARAMS,
        0,
        decode,
    )
    batch = rollout.draw([0, 1], [{"prompt": "1"}, {"prompt": "2"}], samples=1, table=COLUMNS)
    assert batch["stop"].tolist() == [int(Stop.ENVIRONMENT_ERROR), int(Stop.FINISHED)]
    assert batch["sampled"].sum(1).tolist() == [0, 2]


def test_an_episode_that_restarts_has_several_rows_of_one_session():
    def script(row, turns):
        return Reply(restart="again:") if len(turns) == 1 else None

    batch, sampler, _ = play(script)
    assert batch["session"].tolist() == [0, 0, 1, 1]
    assert batch["segment"].tolist() == [0, 1, 0, 1]
    again = [request.prompt for request in sampler.requests if len(request.prompt) > 5]
    assert [decode(prompt) for prompt in again] == ["again:"] * 2
    assert batch["length"].tolist() == [length + 2 for length in batch["prompt_length"].tolist()]


def test_a_last_observation_is_told_to_the_reward_and_not_to_the_policy():
    batch, sampler, _ = play(lambda row, turns: Reply("well done", stop=True), ("1",))
    assert len(sampler.requests) == 1
    assert batch["conversation"][0] == [
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "ab"},
        {"role": "environment", "content": "well done"},
    ]
    assert batch["length"].tolist() == [int(batch["prompt_length"][0]) + 2]


def test_ids_that_an_episode_gives_stand_as_they_are():
    ids = encode("xyz")
    _, sampler, _ = play(lambda row, turns: Reply(ids) if len(turns) == 1 else None, ("1",))
    assert sampler.requests[1].prompt[-3:] == tuple(ids)


@pytest.mark.parametrize(("reply", "said"), [(3, "replied 3; expected a Reply"), ({"a": 1}, "replied {'a': 1}")])
def test_a_reply_of_an_unknown_form_is_named(reply, said):
    with pytest.raises(RunError, match=said):
        play(lambda row, turns: reply, ("1",))


def test_sessions_do_not_wait_for_one_another():
    """The second session has all its turns while the first one's tool takes its time."""
    order, gate = [], None

    async def slowly(row, turns):
        nonlocal gate
        gate = gate or asyncio.Event()
        order.append((row["prompt"], len(turns)))
        if row["prompt"] == "1" and len(turns) == 1:
            await gate.wait()
        if row["prompt"] == "2" and len(turns) == 3:
            gate.set()
        return Reply("+") if len(turns) < 3 else None

    play(slowly)
    assert order.index(("2", 3)) < order.index(("1", 2))


def test_a_coroutine_that_waits_for_the_event_loop_from_within_is_told_to_await():
    async def within():
        return wait_for(asyncio.sleep(0))

    with pytest.raises(RunError, match="use `await` instead"):
        wait_for(within())


def test_rewards_of_turns_stand_on_the_last_token_of_their_turn():
    def script(row, turns):
        return Reply("+", reward=float(len(turns))) if len(turns) < 3 else Reply(reward=-1.0)

    batch, _, _ = play(script, ("1",), columns=("turn_reward",))
    on = batch["sampled"][0].tolist()
    ends = [i for i, sampled in enumerate(on) if sampled and not (i + 1 < len(on) and on[i + 1])]
    assert [batch["turn_reward"][0][i].item() for i in ends] == [1.0, 2.0, -1.0]
    assert batch["turn_reward"].sum().item() == 2.0
    placed = place_turn_rewards(torch.tensor([2.5]), batch["turn_reward"], batch["sampled"], batch["session"])
    assert [placed.token_reward[0][i].item() for i in ends] == [1.0, 2.0, -0.5]
    assert placed.reward.tolist() == [2.5]
    assert environment_reward(batch["conversation"][0]) == 2.0


def test_a_column_that_the_environment_does_not_declare_is_named():
    with pytest.raises(RunError, match="gives the column 'score', which it does not declare; it declares: none"):
        play(lambda row, turns: Reply(columns={"score": 1.0}), ("1",))


class Stuck(Episode):
    """Never answers the second session's turn."""

    def __init__(self, row, *, seed):
        self.row, self.closed = row, False

    async def begin(self):
        return self.row["prompt"]

    async def step(self, turn):
        if self.row["prompt"] == "stuck":
            await asyncio.get_running_loop().create_future()
        return

    async def close(self):
        CLOSED.append(self.row["prompt"])


CLOSED = []


def test_an_episode_that_never_answers_ends_by_itself_alone(caplog):
    rollout = Rollout(FakeSampler(), TOKENIZER, Stuck, SamplingParams(max_new_tokens=4), 0, decode, turn_seconds=0.05)
    batch = rollout.draw([0, 1], [{"prompt": "1+1="}, {"prompt": "stuck"}], samples=1, table=COLUMNS)
    assert batch["stop"].tolist() == [int(Stop.FINISHED), int(Stop.ENVIRONMENT_ERROR)]
    assert "Stuck did not answer within limits.turn_seconds=0.05" in caplog.text
    assert sorted(CLOSED) == ["1+1=", "stuck"]


class Ends(Episode):
    """Ends its turn as the row says: by an interrupt, by a cancellation, or by beginning anew with the same prompt."""

    def __init__(self, row, *, seed):
        self.how, self.turns = row["how"], 0

    async def begin(self):
        return "1+1="

    async def step(self, turn):
        self.turns += 1
        if self.how == "interrupt":
            raise KeyboardInterrupt
        if self.how == "cancel":
            raise asyncio.CancelledError
        return Reply(restart="1+1=") if self.turns < 3 else None


def test_an_interrupt_that_an_episode_raises_reaches_the_run_and_the_next_call_works():
    rollout = Rollout(FakeSampler(), TOKENIZER, Ends, SamplingParams(max_new_tokens=4), 0, decode)
    with pytest.raises(KeyboardInterrupt):
        rollout.draw([0], [{"how": "interrupt"}], samples=1, table=COLUMNS)
    assert len(rollout.draw([0], [{"how": "anew"}], samples=1, table=COLUMNS)) == 3


def test_an_episode_that_cancels_itself_ends_itself_alone():
    rollout = Rollout(FakeSampler(), TOKENIZER, Ends, SamplingParams(max_new_tokens=4), 0, decode)
    batch = rollout.draw([0, 1], [{"how": "cancel"}, {"how": "anew"}], samples=1, table=COLUMNS)
    assert batch["stop"].tolist() == [int(Stop.ENVIRONMENT_ERROR)] + 3 * [int(Stop.FINISHED)]


def test_a_session_that_begins_anew_with_its_own_prompt_goes_on():
    """What is kept of its first turn is the whole of the prompt: there is nothing to extend it with."""
    sampler = EmbeddedSampler(make_tiny())
    params = SamplingParams(max_new_tokens=3, stop_ids=tuple(range(85)))
    batch = Rollout(sampler, TOKENIZER, Ends, params, 0, decode).draw([0], [{"how": "anew"}], samples=1, table=COLUMNS)
    assert len(batch) == 3
    assert batch["sampled"].sum(1).tolist() == [1, 1, 1]


def test_the_class_of_an_episode_is_an_environment_that_a_run_can_close(tmp_path):
    from tests.run import small

    model = small.save_model(tmp_path / "model")
    run = small.make(
        model, tmp_path, environment=lambda: Ends, data=[{"prompt": "1", "target": "1", "how": "anew"}] * 4
    )
    assert run.train().step == 3


# -- what an episode or a sampler gives that is not as it should be


class Grows(Scripted):
    """Begins with ids, and begins anew with the same list, grown."""

    async def begin(self):
        self.ids = [4, 5, 6]
        return self.ids

    async def step(self, turn):
        self.turns.append(turn)
        if len(self.turns) > 1:
            return None
        self.ids += [10, 11]
        return Reply(restart=self.ids)


def test_a_restart_shows_what_was_replied_also_where_a_list_has_grown():
    sampler = FakeSampler(lambda request, number: "ab")
    rollout = Rollout(sampler, TOKENIZER, lambda row, *, seed: Grows(row, None, []), PARAMS, 0, decode)
    rollout.draw([0, 1], [{"prompt": "1"}] * 2, samples=2, table=COLUMNS)
    assert sorted(request.prompt for request in sampler.requests) == [(4, 5, 6)] * 4 + [(4, 5, 6, 10, 11)] * 4


@pytest.mark.parametrize(
    "reply",
    [
        Reply(restart="1" * 50),
        Reply(restart=[]),
        Reply(restart=[4, 10**9]),
        Reply(observation=[4, -1]),
        Reply(observation=[1.7, 5]),
    ],
    ids=["too long", "empty", "no id", "below 0", "no whole number"],
)
def test_an_unusable_reply_ends_its_own_session_alone(reply, caplog):
    def script(row, turns):
        return reply if row["prompt"] == "1" and len(turns) == 1 else None

    batch, _, closed = play(script, max_prompt_tokens=20, long_prompts="filter", vocab_size=len(TOKENIZER))
    by_session = dict(zip(batch["session"].tolist(), batch["stop"].tolist(), strict=True))
    assert by_session == {0: int(Stop.ENVIRONMENT_ERROR), 1: int(Stop.FINISHED)}
    assert len(closed) == 2
    assert "1 of 2 episodes" in caplog.text


def test_a_restart_beside_the_end_begins_no_row():
    batch, sampler, _ = play(lambda row, turns: Reply(restart="again:", stop=True))
    assert (len(batch), len(sampler.requests)) == (2, 2)


def test_an_end_that_is_no_truth_value_is_named():
    with pytest.raises(RunError, match=r"replied stop='no'; expected True or False"):
        play(lambda row, turns: Reply("more", stop="no"))


class Cancels(FakeSampler):
    """Gives up a request by itself, as a client of an engine may."""

    async def sample(self, request):
        if request.group == 1:
            raise asyncio.CancelledError
        return await super().sample(request)


@pytest.mark.parametrize("prompts", [("1", "2"), ("1", "2", "3", "4")])
def test_a_sampler_that_cancels_a_request_stops_the_run_and_is_named(prompts):
    with pytest.raises(RunError, match="sampler Cancels cancelled a request of group 1"):
        play(lambda row, turns: None, prompts, sampler=Cancels())


class FailsGreedily(Scripted):
    """Fails only where the policy answers at once with nothing to choose."""

    async def step(self, turn):
        if turn.text == "greedy" and self.row["prompt"] == "1":
            raise ValueError("not this one")


def test_a_greedy_episode_that_fails_gives_no_baseline(caplog):
    sampler = FakeSampler(lambda request, number: "greedy" if request.params.greedy else "ab")
    rollout = Rollout(sampler, TOKENIZER, lambda row, *, seed: FailsGreedily(row, None, []), PARAMS, 0, decode)
    found = rollout.greedy([0, 1], [{"prompt": "1"}, {"prompt": "2"}])
    assert found[0] is None
    assert decode(found[1]) == "greedy"
    assert "1 of 2 episodes" in caplog.text


def test_a_group_without_a_baseline_has_no_vote():
    sampler = FakeSampler(lambda request, number: "greedy" if request.params.greedy else str(number % 10))
    made = executor(
        remax(group_size=3).graph(),
        sampler=sampler,
        environment=lambda row, *, seed: NoGreedy(row),
        data=[{"prompt": "a", "target": "0"}, {"prompt": "b", "target": "0"}],
        score=lambda sample: (
            float(len(sample.completion)) if sample.completion == "greedy" else float(sample.completion)
        ),
    )
    batch = made.run_step(0).batch
    advantage = batch["advantage"]
    assert not advantage[:3].any()
    assert advantage[3:].any()
    assert torch.isnan(batch["greedy_reward"][:3]).all()


class NoGreedy(Episode):
    """Fails on the greedy answer to the first prompt."""

    def __init__(self, row):
        self.row = row

    async def begin(self):
        return self.row["prompt"]

    async def step(self, turn):
        if self.row["prompt"] == "a" and turn.text == "greedy":
            raise ValueError("not greedily")

    async def close(self):
        return None


class Slowly(FakeSampler):
    """Notes whether tokens are drawn while its weights change."""

    def __init__(self):
        super().__init__(lambda request, number: "ab")
        self.paused, self.torn = False, 0

    async def pause(self):
        self.paused = True

    async def resume(self):
        self.paused = False

    async def sample(self, request):
        while self.paused:
            await asyncio.sleep(0.001)
        return await super().sample(request)


def test_a_rollout_that_begins_while_weights_change_waits_for_them():
    sampler = Slowly()
    rollout = Rollout(sampler, TOKENIZER, lambda row, *, seed: Scripted(row, lambda r, t: None, []), PARAMS, 0, decode)

    async def change():
        await rollout.hold()
        drawing = asyncio.ensure_future(
            asyncio.to_thread(rollout.draw, [0, 1], [{"prompt": "1"}, {"prompt": "2"}], samples=1, table=COLUMNS)
        )
        await asyncio.sleep(0.1)
        drawn = len(sampler.requests)
        await rollout.release()
        await drawing
        return drawn

    assert wait_for(change()) == 0
    assert len(sampler.requests) == 2
    assert sampler.paused, "it rests when nobody is left"
