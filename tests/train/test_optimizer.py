import math

import pytest
import torch
from torch import nn

from rlcore.component import bind
from rlcore.errors import ComponentError
from rlcore.train.optimizer import Optimizer
from rlcore.train.optimizers import adamw, sgd
from rlcore.train.schedule import constant, linear

SETTINGS = dict(factory=adamw, schedule=constant, learning_rate=0.1, max_grad_norm=None, total_steps=0)


def parameters():
    return [nn.Parameter(torch.arange(6.0).view(2, 3)), nn.Parameter(torch.ones(3))]


def give(subjects, seed):
    state = torch.Generator().manual_seed(seed)
    for subject in subjects:
        subject.grad = torch.randn(subject.shape, generator=state)


def test_steps_are_those_of_adamw():
    mine, theirs = parameters(), parameters()
    optimizer = Optimizer(mine, **{**SETTINGS, "max_grad_norm": 0.5})
    reference = torch.optim.AdamW(theirs, lr=0.1, weight_decay=0.0, foreach=False)
    for seed in range(4):
        give(mine, seed)
        give(theirs, seed)
        norm = torch.nn.utils.clip_grad_norm_(theirs, 0.5)
        reference.step()
        report = optimizer.step(torch.tensor(1.0))
        assert report.gradient_norm == pytest.approx(float(norm))
        assert report.finite
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_vectors_do_not_decay():
    subjects = parameters()
    before = [p.detach().clone() for p in subjects]
    optimizer = Optimizer(subjects, **{**SETTINGS, "factory": bind(adamw, weight_decay=0.5)})
    for p in subjects:
        p.grad = torch.zeros_like(p)
    optimizer.step(torch.tensor(0.0))
    torch.testing.assert_close(subjects[0].detach(), before[0] * (1 - 0.1 * 0.5))
    assert torch.equal(subjects[1].detach(), before[1])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_gradient_that_is_not_finite_changes_nothing(bad, clip):
    subjects = parameters()
    optimizer = Optimizer(subjects, **{**SETTINGS, "max_grad_norm": clip, "schedule": bind(constant, warmup_steps=4)})
    give(subjects, 0)
    optimizer.step(torch.tensor(0.0))
    before = [p.detach().clone() for p in subjects]
    moments = [t.clone() for s in optimizer.state_dict()["torch"]["state"].values() for t in s.values()]
    for _ in range(2):
        give(subjects, 1)
        subjects[0].grad[0, 0] = bad
        report = optimizer.step(torch.tensor(0.0))
        assert not report.finite
        assert optimizer.updates == 1
    assert all(torch.equal(p, b) for p, b in zip(subjects, before, strict=True))
    after = [t for s in optimizer.state_dict()["torch"]["state"].values() for t in s.values()]
    assert all(torch.equal(a, b) for a, b in zip(moments, after, strict=True))
    assert all(p.grad is None for p in subjects)
    assert optimizer.learning_rate == pytest.approx(0.05)


def test_a_loss_that_is_not_finite_is_skipped_and_the_next_good_one_is_applied():
    subjects = parameters()
    optimizer = Optimizer(subjects, **SETTINGS)
    give(subjects, 0)
    assert not optimizer.step(torch.tensor(math.inf)).finite
    give(subjects, 0)
    assert optimizer.step(torch.tensor(1.0)).finite
    assert optimizer.updates == 1


def test_the_schedule_goes_on_after_a_resume():
    settings = {**SETTINGS, "schedule": bind(linear, warmup_steps=2), "total_steps": 6}
    rates, optimizer = [], Optimizer(parameters(), **settings)
    for update in range(6):
        if update == 3:
            state = optimizer.state_dict()
            optimizer = Optimizer(parameters(), **settings)
            optimizer.load_state_dict(state)
        give(optimizer.parameters, update)
        rates.append(optimizer.step(torch.tensor(0.0)).learning_rate / 0.1)
    assert rates == pytest.approx([0.5, 1, 0.8, 0.6, 0.4, 0.2])


def test_sgd_moves_against_the_gradient_and_carries_momentum():
    subjects = parameters()
    before = [p.detach().clone() for p in subjects]
    optimizer = Optimizer(subjects, **{**SETTINGS, "factory": bind(sgd, momentum=0.5)})
    for _ in range(2):
        for p in subjects:
            p.grad = torch.full_like(p, 0.5)
        optimizer.step(torch.tensor(0.0))
    # 0.1 x 0.5 x (1 + 1.5)
    for now, then in zip(subjects, before, strict=True):
        torch.testing.assert_close(now.detach(), then - 0.125)


def test_a_factory_of_something_else_is_refused_by_name():
    def nothing(parameters, learning_rate):
        return []

    with pytest.raises(ComponentError, match="optimizer nothing returned list, which is no torch.optim.Optimizer"):
        Optimizer(parameters(), **{**SETTINGS, "factory": nothing})
