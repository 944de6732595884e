"""Laws of services: samplers, environments, trackers and trainers. `factory()` starts one."""

from __future__ import annotations

import copy
import math
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlcore.batch import Batch
from rlcore.math import Counts, masked, single
from rlcore.protocols import (
    Completion,
    Environment,
    Request,
    Sampler,
    SamplingParams,
    Stop,
    Term,
    Tracker,
    Trainer,
    Update,
)
from rlcore.testing.laws.inputs import Component

# -- samplers


def _requests(**params: Any) -> list[Request]:
    sampling = SamplingParams(**{"max_new_tokens": 6, **params})
    return [Request((1, 2, 3)[: 1 + i % 3], sampling, seed=100 + i, group=i // 2) for i in range(4)]


def _sample(factory: Component, requests: list[Request]) -> list[Completion]:
    sampler = factory()
    assert isinstance(sampler, Sampler), f"{type(sampler).__name__} is no Sampler: it lacks a part of the protocol"
    return list(sampler.generate(requests))


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


# -- environments


def _row() -> dict[str, Any]:
    return {"prompt": "Say a number.", "target": "7", "data_source": "conformity", "extra_info": {"n": 3}}


def environments_begin_and_end(factory: Component) -> None:
    """A row has a prompt, text or messages, and every session ends within a bounded number of turns."""
    environment = factory()
    assert isinstance(environment, Environment), f"{type(environment).__name__} is no Environment"
    prompt = environment.begin(_row())
    assert _is_prompt(prompt), f"begin gives {prompt!r:.60}"
    turns: list[str] = []
    for _ in range(100):
        turns.append("I say 7.")
        reply = environment.reply(_row(), turns)
        if reply is None:
            return
        assert _is_prompt(reply), f"reply gives {reply!r:.60}"
    raise AssertionError("100 turns and no end")


def environments_are_deterministic(factory: Component) -> None:
    """The same row and turns give the same prompt and reply, and the row is not changed."""
    row = _row()
    first, second = factory(), factory()
    assert first.begin(row) == second.begin(row), "two sessions of one row begin differently"
    assert first.reply(row, ["7"]) == second.reply(row, ["7"]), "the same turn has two replies"
    assert row == _row(), "the row was changed"


def _is_prompt(value: Any) -> bool:
    if isinstance(value, str):
        return True
    return bool(value) and all({"role", "content"} <= set(message) for message in value)


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
