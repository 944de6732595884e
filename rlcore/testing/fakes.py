"""Fakes for tests: services that a run accepts, do next to nothing, and count what is asked of them.

Each is chosen by a configuration as any other (`Run(sampler=FakeSampler)`); `FakeSampler.started` holds those that were
started, the newest last, and `.calls["sample"]` of one says how often that was called. `counted(function)` does so
for a component or a factory.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from rlcore.batch import Batch
from rlcore.errors import RegistryError
from rlcore.hooks import Add, hookimpl
from rlcore.metrics import Metrics
from rlcore.protocols import (
    Completion,
    Graded,
    Message,
    Request,
    RewardManager,
    Sample,
    Sampler,
    Stop,
    Tracker,
    Trainer,
    TurnEnvironment,
    Update,
    UpdateResult,
)
from rlcore.registry import Plugin, registry


class Counting:
    """What all fakes have: `calls`, how often each method was called, and `started`, every instance of the class."""

    started: ClassVar[list[Any]]
    calls: Counter[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.started = []

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        """Return a new instance that the class remembers."""
        fake = super().__new__(cls)
        fake.calls = Counter()
        cls.started.append(fake)
        return fake


def counted(component: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does what the component does and counts its calls in its attribute `calls`."""

    @functools.wraps(component)
    def counting(*arguments: Any, **options: Any) -> Any:
        counting.calls += 1  # type: ignore[attr-defined]
        return component(*arguments, **options)

    counting.calls = 0  # type: ignore[attr-defined]
    return counting


class FakeSampler(Counting, Sampler):
    """Draws ids at random from the request's own seed; each completion has its full length.

    Args:
        tokens: ids that every completion has instead, as far as there is room.
    """

    reports_kept_logmass = True

    def __init__(self, model: Any, *, tokens: tuple[int, ...] = ()) -> None:
        self.model, self.tokens, self.version = model, tokens, 0

    def weights(self) -> Mapping[str, Tensor]:
        """Return the model's parameters."""
        return dict(self.model.module.named_parameters())

    def update_weights(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take the version; the weights are the model's own."""
        self.calls["update_weights"] += 1
        self.version = version

    async def sample(self, request: Request) -> Completion:
        """Return a completion of the full length."""
        self.calls["sample"] += 1
        room, drawn = request.params.max_new_tokens, random.Random(request.seed)
        ids = list(self.tokens[:room]) or [drawn.randrange(self.model.vocab_size) for _ in range(room)]
        return Completion(ids, [-1.0] * len(ids), [0.0] * len(ids), Stop.LENGTH, [self.version] * len(ids))


class FakeTrainer(Counting, Trainer):
    """Gives one value for every token; an update changes only its version.

    Args:
        value: what every readout is.
    """

    readouts = frozenset({"logprob", "entropy", "square_sum", "value"})

    def __init__(self, config: Any, model: Any, *, value: float = -1.0) -> None:
        self.model, self.value, self.version, self.frozen = model, value, 0, bool(config.frozen)

    def weights(self) -> Mapping[str, Tensor]:
        """Return the model's parameters."""
        return dict(self.model.module.named_parameters())

    def forward(self, batch: Batch, wanted: Mapping[str, str], *, temperature: float) -> dict[str, Tensor]:
        """Return the value where `sampled` is on, else 0."""
        self.calls["forward"] += 1
        return {column: torch.where(batch.flat("sampled"), self.value, 0.0) for column in wanted}

    def update(self, batch: Batch, update: Update, **setting: Any) -> UpdateResult:
        """Count the call and raise the version."""
        self.calls["update"] += 1
        self.version += 1
        metrics = Metrics()
        metrics.put("updates/applied", 1, kind="sum")
        return UpdateResult(metrics, finite=True)

    def state_dict(self) -> dict[str, Any]:
        """Return the version."""
        self.calls["state_dict"] += 1
        return {"version": self.version}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the version."""
        self.calls["load_state_dict"] += 1
        self.version = int(state["version"])

    def save_model(self, folder: Path) -> None:
        """Write the model as it came."""
        self.calls["save_model"] += 1
        self.model.save(folder)


class FakeWeightTransfer(Counting):
    """Hands over the weights as they are."""

    def sync(self, source: Trainer, target: Sampler) -> int:
        """Return the version of the source."""
        self.calls["sync"] += 1
        target.update_weights(source.weights().items(), source.version)
        return target.version


class FakeManager(Counting, RewardManager):
    """Scores by the completion's length alone, so that groups have a spread; the reward is never called.

    Args:
        score: what every sample scores instead.
    """

    def __init__(self, reward: Callable[..., Any], *, score: float | None = None) -> None:
        self.reward, self.fixed = reward, score

    def score(self, samples: Sequence[Sample]) -> list[Graded]:
        """Return one grade per sample."""
        self.calls["score"] += 1
        return [Graded(self.fixed if self.fixed is not None else len(s.completion) % 3 / 2) for s in samples]

    def close(self) -> None:
        """Count the call."""
        self.calls["close"] += 1


class FakeEnvironment(Counting, TurnEnvironment):
    """Begins with the row's prompt and answers nothing, or the same for some turns.

    Args:
        turns: how many of the policy's turns a session has.
        answer: what comes after each but the last.
    """

    def __init__(self, *, turns: int = 1, answer: str = "Go on.") -> None:
        self.turns, self.answer = turns, answer

    def begin(self, row: Mapping[str, Any]) -> str | Sequence[Message]:
        """Return the row's prompt."""
        self.calls["begin"] += 1
        prompt: str | Sequence[Message] = row["prompt"]
        return prompt

    def reply(self, row: Mapping[str, Any], turns: Sequence[str]) -> str | None:
        """Return the answer, or None at the last turn."""
        self.calls["reply"] += 1
        return self.answer if len(turns) < self.turns else None


class FakeTracker(Counting, Tracker):
    """Keeps what it is handed in `rows`: (step, metrics)."""

    immediate = True

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []

    def start(self, *, run: str, project: str, config: Mapping[str, Any], folder: Path) -> None:
        """Count the call."""
        self.calls["start"] += 1

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Keep one step's metrics."""
        self.calls["log"] += 1
        self.rows.append((step, dict(metrics)))

    def finish(self) -> None:
        """Count the call."""
        self.calls["finish"] += 1


class FakeOrder(Counting):
    """Gives the rows one after another, over and over."""

    def __init__(self, size: int) -> None:
        self.size, self.drawn = size, 0

    def next(self, count: int) -> list[int]:
        """Return the next indices."""
        self.calls["next"] += 1
        self.drawn += count
        return [place % self.size for place in range(self.drawn - count, self.drawn)]

    def state_dict(self) -> dict[str, int]:
        """Return how many were drawn."""
        return {"drawn": self.drawn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore how many were drawn."""
        self.drawn = int(state["drawn"])


@contextmanager
def registered(register: Callable[[Add], None], *, distribution: str = "fakes") -> Iterator[None]:
    """Let what `register` offers be known by name within a block, as if a package of that name were installed.

    Raises RegistryError with the reason where it cannot be registered.
    """
    known = registry()
    # Loading a plugin replaces the registry's tables; its list of plugins alone grows in place.
    before = {**vars(known), "plugins": list(known.plugins)}
    module = ModuleType(f"rlcore_testing_{distribution}")
    module.register = hookimpl(register)  # type: ignore[attr-defined]
    try:
        known.load(Plugin(distribution, module.__name__, distribution, "0"), lambda: module)
        for plugin in known.plugins:
            if plugin.distribution == distribution and plugin.reason:
                raise RegistryError(f"plugin {plugin.name} is out: {plugin.reason}")
        yield
    finally:
        vars(known).update(before)
        if known.manager.is_registered(module):
            known.manager.unregister(module)
