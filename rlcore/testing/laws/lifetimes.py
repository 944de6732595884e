"""Laws of services: samplers, environments, trackers and trainers. `factory()` starts one."""

from __future__ import annotations

import asyncio
import copy
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlcore.batch import Batch
from rlcore.event_loop import wait_for
from rlcore.math import Counts, masked, single
from rlcore.protocols import (
    Completion,
    HoldsWeights,
    Request,
    Sampler,
    SamplingParams,
    Stop,
    Term,
    Tracker,
    Trainer,
    Turn,
    Update,
)
from rlcore.services import check_episode, check_reply, generate_completions
from rlcore.testing.laws.inputs import Component

# -- samplers


def _requests(**params: Any) -> list[Request]:
    sampling = SamplingParams(**{"max_new_tokens": 6, **params})
    return [Request((1, 2, 3)[: 1 + i % 3], sampling, seed=100 + i, group=i // 2) for i in range(4)]


def _sample(factory: Component, requests: list[Request]) -> list[Completion]:
    sampler = factory()
    assert isinstance(sampler, Sampler), f"{type(sampler).__name__} is no Sampler: it lacks a part of the protocol"
    return generate_completions(sampler, requests)


def samplers_answer_every_request(factory: Component) -> None:
    """One completion per request, none of none, a log-probability for every token, at most the tokens asked for."""
    requests = _requests()
    drawn = _sample(factory, requests)
    assert len(drawn) == len(requests), f"{len(drawn)} completions for {len(requests)} requests"
    assert _sample(factory, []) == [], "something is drawn for no request"
    for completion in drawn:
        count = len(completion.tokens)
        assert 0 < count <= 6, f"{count} tokens, at most 6 were asked for"
        assert len(completion.logprob) == count, f"{len(completion.logprob)} log-probabilities for {count} tokens"
        assert len(completion.kept_logmass) == count, f"{len(completion.kept_logmass)} masses for {count} tokens"
        assert all(p <= 1e-6 and math.isfinite(p) for p in completion.logprob), "a log-probability above 0 or infinite"
        assert all(m <= 1e-6 and math.isfinite(m) for m in completion.kept_logmass), "a kept mass above 1 or of 0"
        assert all(isinstance(token, int) and token >= 0 for token in completion.tokens), "a token is no id"


def samplers_depend_on_the_request_alone(factory: Component) -> None:
    """A request has one completion, whatever stands beside it, in whatever order, and however often it is asked."""
    requests = _requests()
    drawn = _sample(factory, requests)
    assert _sample(factory, requests[::-1])[::-1] == drawn, "another order draws another completion"
    assert _sample(factory, requests[1:2]) == drawn[1:2], "a request alone draws another completion"
    twin = [requests[0], requests[0]]
    first, second = _sample(factory, twin)
    assert first == second == drawn[0], "one seed draws two completions"


def samplers_hear_the_seed(factory: Component) -> None:
    """Another seed draws other tokens, sooner or later."""
    sampling = SamplingParams(max_new_tokens=6, ignore_eos=True)
    drawn = _sample(factory, [Request((1, 2), sampling, seed=seed) for seed in range(12)])
    assert len({tuple(completion.tokens) for completion in drawn}) > 1, "twelve seeds draw one completion"


def samplers_say_why_they_stopped(factory: Component) -> None:
    """Cut off is not finished: what is shorter than asked for has ended by itself, what is cut has the full length."""
    for completion in _sample(factory, _requests()):
        assert isinstance(completion.stop, Stop), f"stop is {completion.stop!r}"
        if completion.stop == Stop.LENGTH:
            assert len(completion.tokens) == 6, "cut off before the bound"
        if len(completion.tokens) < 6:
            assert completion.stop != Stop.LENGTH, "shorter than the bound, and said to be cut off"
    for completion in _sample(factory, _requests(max_new_tokens=1)):
        assert len(completion.tokens) == 1, "more than one token, one was asked for"


def samplers_answer_many_at_once(factory: Component) -> None:
    """Sixty-four requests of unequal lengths, asked for together, are answered each by its own completion."""
    given = [SamplingParams(max_new_tokens=1 + i % 7, ignore_eos=True) for i in range(64)]
    requests = [Request((1, 2, 3)[: 1 + i % 3], params, seed=i, group=i) for i, params in enumerate(given)]
    drawn = _sample(factory, requests)
    assert all(len(c.tokens) <= p.max_new_tokens for c, p in zip(drawn, given, strict=True)), "more than was asked for"
    assert _sample(factory, requests[40:41]) == drawn[40:41], "a request alone draws another completion"


def samplers_hold_what_they_were_given(factory: Component) -> None:
    """After `update_weights` the version is the one that was given, and every token drawn from then on has it.

    The weights that are handed over are those that it shows (`weights()`). One that shows none is handed none here; a
    run compares what arrives with what was sent.
    """
    sampler = factory()
    held = dict(sampler.weights()) if isinstance(sampler, HoldsWeights) else {}
    sampler.update_weights(iter(held.items()), 7)
    assert sampler.version == 7, f"version {sampler.version} after update_weights(weights, 7)"
    for completion in generate_completions(sampler, _requests()):
        assert set(completion.versions) == {7}, f"versions {completion.versions} of weights 7"


def samplers_wait_while_paused(factory: Component) -> None:
    """What is under way at `pause` is answered after `resume`, not before, with the tokens that it would have had.

    A sampler that answers at once has nothing under way.
    """

    async def paused() -> list[Completion]:
        sampler = factory()
        asked = [asyncio.ensure_future(sampler.sample(request)) for request in _requests()]
        await asyncio.sleep(0)
        await sampler.pause()
        before = [each.done() for each in asked]
        for _ in range(100):
            await asyncio.sleep(0)
        assert [each.done() for each in asked] == before, "a request is answered between `pause` and `resume`"
        await sampler.resume()
        return list(await asyncio.wait_for(asyncio.gather(*asked), timeout=60))

    drawn = wait_for(paused())
    assert [c.tokens for c in drawn] == [c.tokens for c in _sample(factory, _requests())], "a pause draws other tokens"


def samplers_answer_what_they_abort(factory: Component) -> None:
    """After `abort` every request is answered: with what it has and `Stop.ABORTED`, or whole if it cannot be ended."""

    async def aborted() -> list[Completion]:
        sampler = factory()
        asked = [asyncio.ensure_future(sampler.sample(request)) for request in _requests()]
        await asyncio.sleep(0)
        await sampler.abort()
        return list(await asyncio.wait_for(asyncio.gather(*asked), timeout=60))

    for completion in wait_for(aborted()):
        assert len(completion.tokens) == len(completion.logprob) == len(completion.versions)
        assert completion.stop == Stop.ABORTED or completion.tokens, (
            "nothing was drawn, and it is not said to be aborted"
        )


# -- environments


def _row() -> dict[str, Any]:
    return {"prompt": "Say a number.", "target": "7", "data_source": "conformity", "extra_info": {"n": 3}}


async def _play(environment: Any, row: dict[str, Any], turns: int = 100) -> list[Any]:
    """Return what an episode says to a policy that always says the same, until it ends."""
    episode = check_episode(environment, environment(row, seed=11))
    said: list[Any] = [await episode.begin()]
    for _ in range(turns):
        reply = check_reply(environment, await episode.step(Turn("I say 7.", (7,), Stop.FINISHED)))
        said.append(None if reply is None else (reply.observation, reply.stop, reply.restart))
        if reply is None or reply.stop or (reply.observation is None and reply.restart is None):
            break
    await episode.close()
    return said


def environments_begin_and_end(factory: Component) -> None:
    """An episode begins with text, messages or ids, answers so, and ends within a bounded number of turns."""
    environment = factory()
    assert callable(environment), f"{type(environment).__name__} is no Environment: it cannot be called"
    begun, *replies = wait_for(_play(environment, _row()))
    assert _is_prompt(begun), f"begin gives {begun!r:.60}"
    for reply in replies:
        for shown in (reply or (None, False, None))[::2]:
            assert shown is None or _is_prompt(shown), f"step gives {shown!r:.60}"
    ended = replies[-1] is None or replies[-1][1] or (replies[-1][0] is None and replies[-1][2] is None)
    assert ended, "100 turns and no end"


def environments_are_deterministic(factory: Component) -> None:
    """The same row, seed and turns give the same episode, and the row is not changed."""
    row = _row()
    first, second = (wait_for(_play(factory(), row, turns=3)) for _ in range(2))
    assert first == second, "two episodes of one row and seed differ"
    assert row == _row(), "the row was changed"


def environments_keep_their_episodes_apart(factory: Component) -> None:
    """Episodes that run at once do not hear of one another."""

    async def together() -> list[list[Any]]:
        environment = factory()
        return list(await asyncio.gather(*(_play(environment, _row(), turns=3) for _ in range(4))))

    played = wait_for(together())
    assert all(each == played[0] for each in played), "episodes that run at once differ from one another"


def environments_can_be_put_back(factory: Component) -> None:
    """An episode that keeps its state goes on from it as if nothing had been."""

    async def both() -> tuple[Any, Any] | None:
        straight: Any = factory()(_row(), seed=11)
        again: Any = factory()(_row(), seed=11)
        if not hasattr(straight, "state_dict"):
            return None
        await straight.begin()
        await again.begin()
        turn = Turn("I say 7.", (7,), Stop.FINISHED)
        if (reply := await straight.step(turn)) is None or reply.stop:
            return None
        again.load_state_dict(straight.state_dict())
        return await straight.step(turn), await again.step(turn)

    played = wait_for(both())
    assert played is None or played[0] == played[1], "after its state was put back it answers otherwise"


def _is_prompt(value: Any) -> bool:
    if isinstance(value, str):
        return True
    messages = bool(value) and all(isinstance(m, Mapping) and {"role", "content"} <= set(m) for m in value)
    return messages or (bool(value) and all(isinstance(token, int) for token in value))


# -- trackers


def trackers_take_whatever_is_measured(factory: Component) -> None:
    """Steps, names with slashes, NaN and infinity, a step without a metric: nothing raises, and it can be closed."""
    with tempfile.TemporaryDirectory() as folder:
        tracker = factory()
        assert isinstance(tracker, Tracker), f"{type(tracker).__name__} is no Tracker"
        tracker.start(
            run="conformity", project="rlcore", config={"steps": 2, "nested": {"a": [1]}}, folder=Path(folder)
        )
        tracker.log(0, {"update/loss": 0.5, "seconds/step": 0.1})
        tracker.log(1, {"update/loss": math.nan, "update/norm": math.inf})
        tracker.log(2, {})
        tracker.finish()


def trackers_leave_the_metrics(factory: Component) -> None:
    """What is handed to a tracker is not changed by it."""
    with tempfile.TemporaryDirectory() as folder:
        tracker = factory()
        tracker.start(run="conformity", project="rlcore", config={}, folder=Path(folder))
        metrics = {"update/loss": 0.5, "seconds/step": 0.1}
        tracker.log(0, metrics)
        tracker.finish()
        assert metrics == {"update/loss": 0.5, "seconds/step": 0.1}, "the metrics were changed"


# -- trainers


def _batch() -> Batch:
    """Return three ragged rows of ids below 4."""
    length = torch.tensor([5, 3, 4])
    sampled = torch.tensor([0, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1, 0], dtype=torch.bool)
    return Batch(
        {
            "tokens": torch.tensor([1, 2, 3, 0, 1, 2, 2, 3, 0, 1, 3, 2]),
            "length": length,
            "prompt_length": torch.tensor([2, 1, 1]),
            "sampled": sampled,
            "mask": sampled,
            "group": torch.tensor([5, 5, 6]),
            "session": torch.arange(3),
            "segment": torch.zeros(3, dtype=torch.int64),
            "advantage": torch.where(sampled, torch.linspace(-1, 1, 12), 0),
        }
    )


def _policy_gradient(logprob: Tensor, advantage: Tensor, mask: Tensor) -> Tensor:
    return -masked(single(advantage), mask) * masked(single(logprob), mask)


def _token_mean(mask: Tensor, counts: Counts) -> Tensor:
    return mask.float() / max(counts.tokens, 1)


def _forward(trainer: Any, batch: Batch) -> Tensor:
    result: Tensor = trainer.forward(batch, {"old_logprob": "logprob"}, temperature=1.0)["old_logprob"]
    return result


def trainers_read_log_probabilities(factory: Component) -> None:
    """Flat, at most 0, exactly 0 where nothing was sampled, bit-equal when asked again."""
    trainer = factory()
    assert isinstance(trainer, Trainer), f"{type(trainer).__name__} is no Trainer"
    assert "logprob" in trainer.readouts, f"readouts are {sorted(trainer.readouts)}, without logprob"
    batch = _batch()
    logprob = _forward(trainer, batch)
    assert logprob.shape == (12,), f"shape {tuple(logprob.shape)} for 12 tokens"
    assert logprob.isfinite().all(), "not finite"
    assert (logprob <= 1e-6).all(), "above 0"
    assert not logprob[~batch.flat("sampled")].any(), "not 0 where nothing was sampled"
    assert torch.equal(logprob, _forward(trainer, batch)), "asked again it says otherwise"


def trainers_read_rows_in_any_order(factory: Component) -> None:
    """A row's log-probabilities are its own, whatever stands beside it."""
    trainer, batch = factory(), _batch()
    in_order = _forward(trainer, batch).split([5, 3, 4])
    turned = _forward(trainer, batch.take([2, 0, 1])).split([4, 5, 3])
    for turned_row, row in zip(turned, (in_order[2], in_order[0], in_order[1]), strict=True):
        worst = float((turned_row - row).abs().max())
        assert worst <= 1e-5 * max(1.0, float(row.abs().max())), f"another order changes it by {worst:.3g}"


def trainers_update_and_come_back(factory: Component) -> None:
    """An update is finite and moves the version; a saved state brings the log-probabilities back bit for bit."""
    trainer, batch = factory(), _batch()
    # What a saved state holds may be the live tensors.
    before, state, version = _forward(trainer, batch), copy.deepcopy(trainer.state_dict()), trainer.version
    result = trainer.update(
        batch,
        Update((Term(_policy_gradient, _token_mean),)),
        seed=3,
        temperature=1.0,
        scalars={},
        max_new_tokens=4,
    )
    assert result.finite, "an update that is not finite"
    assert trainer.version == version + 1, f"version {trainer.version} after one update of version {version}"
    trainer.load_state_dict(state)
    assert torch.equal(_forward(trainer, batch), before), "the saved state says otherwise"
