"""Rollouts that run beside the update: in order, within their bound of age, with nothing lost."""

import asyncio
import random
import time
from dataclasses import replace

import pytest
import torch

from rlcore.errors import RunError
from rlcore.execute.ahead import Ledger, RolloutsAhead
from rlcore_algorithms import grpo, ppo
from tests.execute.fakes import FakeSampler, FakeTrainer, executor


class Timed(FakeSampler):
    """A sampler that takes its time; `seconds(request)` says how long."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds, self.running = seconds, asyncio.Event()
        self.running.set()

    async def sample(self, request):
        await asyncio.sleep(self.seconds(request))
        await self.running.wait()
        return await super().sample(request)


class Slow(FakeTrainer):
    """A trainer whose update takes its time."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def update(self, batch, update, **setting):
        time.sleep(self.seconds)
        return super().update(batch, update, **setting)


def run(*, age, steps=6, seconds=lambda request: 0.0, update=0.0, **more):
    made = executor(
        grpo(group_size=3).graph(),
        sampler=Timed(seconds),
        trainers={"trainer": Slow(update)},
        total_steps=steps,
        max_weight_age=age,
        **more,
    )
    made.sync_samplers()
    begin = time.perf_counter()
    results = [made.run_step(step) for step in range(steps)]
    spent = time.perf_counter() - begin
    made.close()
    return made, results, spent


@pytest.mark.parametrize("age", [0, 1, 4])
@pytest.mark.parametrize("tail", ["uniform", "heavy"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_the_age_of_every_row_is_recorded_and_within_the_bound(age, tail, deterministic):
    def seconds(request):
        draw = random.Random(request.seed)
        return 0.01 * (draw.random() if tail == "uniform" else min(draw.paretovariate(1.1), 8))

    made, results, _ = run(age=age, steps=8, seconds=seconds, update=0.01, deterministic=deterministic)
    ages = [step.step - step.batch["token_version"][step.batch["sampled"]] for step in results]
    assert all(int(each.min()) >= 0 and int(each.max()) <= age for each in ages)
    for step, found in zip(results, ages, strict=True):
        if age:
            assert step.metrics["rollout/age_max"].value == int(found.max())
        else:
            assert "rollout/age_max" not in step.metrics
    # Otherwise the sampler may have been given the new weights before it drew.
    assert not (age and deterministic) or max(int(each.max()) for each in ages) >= 1, "nothing ran ahead"
    groups = [group for step in results for group in dict.fromkeys(step.batch["group"].tolist())]
    assert groups == sorted(set(groups)), "a group was trained twice or out of order"
    assert made.account() == {"drawn": 16, "trained": 16, "dropped": {}, "waiting": 0}


def test_rollout_and_update_overlap():
    """The effect, not the speed: of twelve naps of 50 ms eleven would stand one after another without it."""
    _, _, apart = run(age=0, seconds=lambda request: 0.05, update=0.05)
    _, _, beside = run(age=1, seconds=lambda request: 0.05, update=0.05)
    assert beside < apart


def test_a_repeatable_run_changes_weights_between_the_rollouts_of_two_steps():
    def seconds(request):
        return 0.02 * random.Random(request.seed).random()

    runs = [run(age=2, seconds=seconds, update=pause, deterministic=True)[1] for pause in (0.0, 0.03)]
    for first, second in zip(*runs, strict=True):
        assert torch.equal(first.batch["token_version"], second.batch["token_version"])
        assert torch.equal(first.batch.flat("tokens"), second.batch.flat("tokens"))


def test_steps_that_ran_ahead_are_saved_and_trained_after_a_resume():
    whole, results, _ = run(age=2, steps=6, deterministic=True)
    made = executor(grpo(group_size=3).graph(), total_steps=6, max_weight_age=2, deterministic=True)
    made.sync_samplers()
    for step in range(2):
        made.run_step(step)
    with made.standing_still():
        state = made.state_dict()
        drawn = len(made.fakes.drawn)
    made.close()
    assert state["ledger"]["drawn"] == drawn == 4 + 2 * len(state["ahead"])
    assert state["ahead"], "nothing ran ahead"
    again = executor(grpo(group_size=3).graph(), total_steps=6, max_weight_age=2, deterministic=True)
    again.roles.draw(drawn)  # a data source that goes on where it was
    again.fakes.trainers["trainer"].version = 2
    again.load_state_dict(state)
    again.sync_samplers()
    rest = [again.run_step(step) for step in range(2, 6)]
    again.close()
    assert [r.batch["group"].tolist() for r in rest] == [r.batch["group"].tolist() for r in results[2:]]
    assert [r.batch.flat("tokens").tolist() for r in rest] == [r.batch.flat("tokens").tolist() for r in results[2:]]
    assert again.account() == whole.account() == {"drawn": 12, "trained": 12, "dropped": {}, "waiting": 0}


def test_an_error_of_a_rollout_is_raised_where_its_step_is_taken():
    def roll_out(step):
        if step == 2:
            raise RunError("the sampler is gone")
        return step

    ahead = RolloutsAhead(roll_out, 10, 3)
    assert [ahead.take(0), ahead.take(1)] == [0, 1]
    with pytest.raises(RunError, match="the sampler is gone"):
        ahead.take(2)
    ahead.close(lambda: None)


def test_a_ledger_that_does_not_close_is_an_error():
    ledger = Ledger(drawn=5, trained=2)
    ledger.drop("node 'filter'", 1)
    ledger.check(waiting=2)
    with pytest.raises(RunError, match=r"5 groups were drawn, and 4 .*: 2 trained, 1 dropped .* 1 waiting"):
        ledger.check(waiting=1)


class Breaks(FakeSampler):
    """Draws nothing any more from some step on."""

    async def sample(self, request):
        if request.group >= 6:
            raise RunError("the engine is gone")
        return await super().sample(request)


@pytest.mark.parametrize("age", [1, 2])
def test_a_stage_ahead_that_fails_is_told_as_it_is_and_a_checkpoint_before_it_can_be_written(age):
    drawn = Drawn()
    made = executor(grpo(group_size=3).graph(), sampler=Breaks(), total_steps=6, max_weight_age=age, deterministic=True)
    made.roles.draw = drawn
    made.sync_samplers()
    made.run_step(0)
    with made.standing_still():
        state = made.state_dict()
    # What the failed stage had drawn is drawn again: nothing is lost, and the ledger closes.
    assert state["ledger"]["drawn"] == drawn.count == made.ledger.trained + made.waiting_groups()
    with pytest.raises(RunError, match="the engine is gone"):
        for step in range(1, 6):
            made.run_step(step)
    with made.standing_still():
        made.state_dict()
    made.close()


class Drawn:
    """A source of prompts that can go back."""

    def __init__(self):
        self.count = 0

    def __call__(self, count):
        self.count += count
        return [(self.count - count + i, {"prompt": "1", "target": "1"}) for i in range(count)]

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def test_a_role_that_rests_in_a_step_is_not_read_beside_its_update():
    """Its values are then those of the weights after the update before, whoever is faster."""
    graph = ppo(group_size=2).graph()
    resting = replace(next(n for n in graph.nodes if n.name == "critic_update"), active=lambda step: step % 2 == 0)
    graph = graph.swap("critic_update", resting)
    assert {"value", "advantage"} <= graph.at(0).learning_names
    assert {"value", "advantage"} <= graph.at(1).learning_names
