"""Laws of controllers, readouts, optimizers, schedules, data sets, orders, weight transfers, models and experiments."""

from __future__ import annotations

import copy
import importlib.resources
import math
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import yaml
from torch import Tensor, nn

from rlcore.component import invoke, reads
from rlcore.data import Order
from rlcore.registry import registry
from rlcore.services import start
from rlcore.testing.fakes import FakeSampler, FakeTrainer
from rlcore.testing.laws.inputs import Component, assert_close, estimator_columns

# -- controllers


def controllers_write_finite_numbers(factory: Component) -> None:
    """It gives finite numbers for columns without dimensions, the same for the same step."""
    table, columns = registry().columns, estimator_columns()
    columns |= {r.name: 0.1 for r in reads(factory) if r.name in table and not table[r.name].dims}
    # A KL estimator among the options reads `logprob`, which a graph fills with the old log-probabilities.
    columns.setdefault("logprob", columns["old_logprob"])
    first, second = (_numbers(invoke(factory, columns)) for _ in range(2))
    assert first, "it gives no number"
    assert all(math.isfinite(number) for number in first), f"not finite: {first}"
    assert first == second, f"the same step gives {first} and {second}"


def _numbers(result: Any) -> list[float]:
    values = result.values() if isinstance(result, Mapping) else result if isinstance(result, tuple) else (result,)
    return [float(value) for value in values]


# -- readouts


def _logits() -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    return torch.randn(6, 11, generator=random), torch.randint(0, 11, (6,), generator=random)


def readouts_are_one_number_a_token(factory: Component) -> None:
    """Of logits [n, V] and tokens [n] it gives n finite numbers."""
    values = factory(*_logits())
    assert isinstance(values, Tensor), f"it gives {type(values).__name__}"
    assert values.shape == (6,), f"shape {tuple(values.shape)} for 6 tokens"
    assert values.isfinite().all(), "not finite on finite logits"


def readouts_read_each_token_alone(factory: Component) -> None:
    """A token's number is its own, whatever stands beside it: logits come in pieces of any size."""
    logits, token = _logits()
    pieces = torch.cat([factory(logits[i : i + 1], token[i : i + 1]) for i in range(len(token))])
    assert_close(pieces, factory(logits, token), "a token alone")


# -- optimizers


def _stepped(optimizer: torch.optim.Optimizer, subjects: list[nn.Parameter]) -> None:
    for subject in subjects:
        subject.grad = torch.ones_like(subject)
    optimizer.step()


def _subjects() -> list[nn.Parameter]:
    return [nn.Parameter(torch.zeros(2, 3)), nn.Parameter(torch.zeros(3))]


def optimizers_go_down_the_gradient(factory: Component) -> None:
    """It is torch's; a step moves every parameter against its gradient, and at rate 0 none."""
    for rate in (0.1, 0.0):
        subjects = _subjects()
        optimizer = factory(subjects, rate)
        assert isinstance(optimizer, torch.optim.Optimizer), f"it makes a {type(optimizer).__name__}"
        _stepped(optimizer, subjects)
        for subject in subjects:
            moved = bool((subject < 0).all()) if rate else not subject.any()
            assert moved, f"at rate {rate} a gradient of 1 moves 0 to {subject.flatten()[0].item():.3g}"


def optimizers_come_back(factory: Component) -> None:
    """A saved state goes on bit for bit."""
    straight, again = _subjects(), _subjects()
    optimizer = factory(straight, 0.1)
    _stepped(optimizer, straight)
    # What a saved state holds may be the live tensors.
    saved = copy.deepcopy(optimizer.state_dict())
    for parameter, other in zip(again, straight, strict=True):
        parameter.data.copy_(other.data)
    resumed = factory(again, 0.1)
    resumed.load_state_dict(saved)
    _stepped(optimizer, straight)
    _stepped(resumed, again)
    for parameter, other in zip(again, straight, strict=True):
        assert torch.equal(parameter, other), "after a saved state the next step is another"


# -- schedules


def schedules_stay_between_0_and_1(factory: Component) -> None:
    """The factor is in [0, 1] at each of 20 updates, above 0 at the first and last, the same when asked again."""
    factors = [float(factory(update, 20)) for update in range(1, 21)]
    assert all(0 <= factor <= 1 for factor in factors), f"factors from {min(factors)} to {max(factors)}"
    assert factors[0] > 0, "the first update does nothing"
    assert factors[-1] > 0, "the last update does nothing"
    assert factors == [float(factory(update, 20)) for update in range(1, 21)], "asked again it says otherwise"


# -- data sets


def datasets_give_rows(factory: Component) -> None:
    """There is a row at least, each is a mapping with a prompt (or a completion's messages), and they come again."""
    rows = list(factory())
    assert rows, "there is no row"
    for number, row in enumerate(rows[:100]):
        assert isinstance(row, Mapping), f"row {number} is {type(row).__name__}"
        assert "prompt" in row or "messages" in row, f"row {number} has neither prompt nor messages: {', '.join(row)}"
    assert list(factory())[:100] == rows[:100], "called again it gives other rows"


# -- orders


def _started(factory: Component, seed: int = 3) -> Order:
    rows = [{"prompt": f"{i}?", "target": str(i), "difficulty": i} for i in range(8)]
    order: Order = start("order", factory, offered={"size": len(rows), "seed": seed, "rows": rows})
    return order


def orders_draw_from_the_rows(factory: Component) -> None:
    """It gives as many indices as it is asked for, all of rows that there are, and the same from the same seed."""
    first, second = _started(factory), _started(factory)
    for count in (3, 8, 1, 5):
        drawn = list(first.next(count))
        assert len(drawn) == count, f"{len(drawn)} indices, {count} were asked for"
        assert all(0 <= index < 8 for index in drawn), f"indices {drawn} of 8 rows"
        assert list(second.next(count)) == drawn, "the same seed draws other rows"


def orders_come_back(factory: Component) -> None:
    """A saved state goes on exactly."""
    straight, resumed = _started(factory), _started(factory)
    straight.next(5)
    resumed.load_state_dict(straight.state_dict())
    drawn = [list(order.next(4)) for order in (straight, resumed)]
    assert drawn[0] == drawn[1], f"after a saved state it draws {drawn[1]}, without a break {drawn[0]}"


# -- weight transfers


def weight_transfers_give_the_version(factory: Component) -> None:
    """After a sync the sampler has the trainer's version, which is returned, after an update too."""
    model = SimpleNamespace(module=nn.Linear(2, 2), vocab_size=4)
    trainer = FakeTrainer(SimpleNamespace(frozen=False), model)
    sampler = FakeSampler(model)
    transfer = factory()
    for version in (0, 1):
        trainer.version = version
        returned = transfer.sync(trainer, sampler)
        assert returned == version == sampler.version, f"version {returned} after the sync of version {version}"


# -- models and files


def models_are_folders(factory: Component) -> None:
    """It gives the path of a folder with a model's config.json, and reports by lines of text."""
    folder = factory(report=lambda line: None)
    assert isinstance(folder, str | Path), f"it gives {type(folder).__name__}"
    assert (Path(folder) / "config.json").is_file(), f"{folder} has no config.json"


def experiments_are_files_of_their_package(factory: Any) -> None:
    """It is `package:resource.yaml`, which can be read and names a model, data and a reward."""
    package, _, resource = str(factory).partition(":")
    tree = yaml.safe_load(importlib.resources.files(package).joinpath(resource).read_text(encoding="utf-8"))
    assert isinstance(tree, Mapping), f"{factory} holds {type(tree).__name__}"
    missing = {"model", "data", "reward"} - set(tree)
    assert not missing, f"{factory} names no {', '.join(sorted(missing))}"
