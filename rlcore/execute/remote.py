"""Services that live in another process, seen as what they are: a sampler, a trainer, a manager, an environment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from torch import Tensor

from rlcore.batch import Batch
from rlcore.checkpoint import load_trainer, save_trainer
from rlcore.execute.process import ProcessHandle, RoleSpec
from rlcore.metrics import Metrics
from rlcore.protocols import (
    Completion,
    Episode,
    Graded,
    Message,
    Reply,
    Request,
    RewardManager,
    Sample,
    Sampler,
    Turn,
    Update,
    UpdateResult,
)
from rlcore.services import Receipt, check_episode, environment_name, first_refused

CLOSING = 10.0
"""Seconds that a manager in another process may take to end what it has started."""


def start_remotely(spec: RoleSpec) -> Any:
    """Start a role in a process of its own; return what stands for its service here."""
    return _STANDS_FOR[spec.kind](spec)


class RemoteSampler(Sampler):
    """A sampler in a process of its own, with weights of its own."""

    def __init__(self, spec: RoleSpec) -> None:
        self.handle = ProcessHandle(spec, ("version", "reports_kept_logmass", "reads_inputs", "class_name"))

    @property
    def version(self) -> int:  # type: ignore[override]
        """The version of the weights that it was last given."""
        return int(self.handle.attributes["version"])

    @property
    def reports_kept_logmass(self) -> bool:  # type: ignore[override]
        """What the sampler itself says."""
        return bool(self.handle.attributes["reports_kept_logmass"])

    @property
    def reads_inputs(self) -> bool:  # type: ignore[override]
        """What the sampler itself says."""
        return bool(self.handle.attributes["reads_inputs"])

    @property
    def class_name(self) -> str:
        """The name of the sampler's own class, for messages."""
        return str(self.handle.attributes["class_name"])

    async def sample(self, request: Request) -> Completion:
        """Return the completion of a request."""
        completion: Completion = await self.handle.ask_async("sample", request)
        return completion

    def receive(self, weights: Iterable[tuple[str, Tensor]], version: int) -> Receipt:
        """Send the weights; return what the sampler's process received, counted and hashed there."""
        sent = [(name, weight.detach().cpu()) for name, weight in weights]
        receipt: Receipt = self.handle.ask("receive", sent, version)
        return receipt

    def update_weights(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Send the weights."""
        self.receive(weights, version)

    async def abort(self) -> None:
        """End the requests under way."""
        await self.handle.ask_async("abort")

    async def pause(self) -> None:
        """Draw no more tokens until `resume`."""
        await self.handle.ask_async("pause")

    async def resume(self) -> None:
        """Go on after `pause`."""
        await self.handle.ask_async("resume")

    def close(self) -> None:
        """End the process."""
        self.handle.close()


class RemoteTrainer:
    """A trainer in a process of its own."""

    def __init__(self, spec: RoleSpec) -> None:
        self.handle = ProcessHandle(spec, ("version", "frozen", "readouts"), functions=True)

    @property
    def version(self) -> int:
        """How many updates its weights have had."""
        return int(self.handle.attributes["version"])

    @property
    def frozen(self) -> bool:
        """It is never updated."""
        return bool(self.handle.attributes["frozen"])

    @property
    def readouts(self) -> frozenset[str]:
        """Names of what it can compute from logits."""
        return frozenset(self.handle.attributes["readouts"])

    def weights(self) -> Mapping[str, Tensor]:
        """Return a copy of the parameters by name."""
        found: dict[str, Tensor] = self.handle.ask("weights")
        return found

    def forward(self, batch: Batch, wanted: Mapping[str, str], *, temperature: float) -> dict[str, Tensor]:
        """Return each wanted column."""
        found: dict[str, Tensor] = self.handle.ask("forward", batch, dict(wanted), temperature=temperature)
        return found

    def update(self, batch: Batch, update: Update, **setting: Any) -> UpdateResult:
        """Apply an update over the batch."""
        result: UpdateResult = self.handle.ask("update", batch, update, **setting)
        return result

    def measure(self, batch: Batch, update: Update, **setting: Any) -> Metrics:
        """Return the loss over the batch, without an update."""
        found: Metrics = self.handle.ask("measure", batch, update, **setting)
        return found

    def save_state(self, folder: Path) -> None:
        """Let the trainer's process write its state: it does not travel."""
        self.handle.ask("save_state", Path(folder).absolute())

    def load_state(self, folder: Path) -> None:
        """Let the trainer's process read its state."""
        self.handle.ask("load_state", Path(folder).absolute())

    def state_dict(self) -> dict[str, Any]:
        """Return everything that a resumed run needs."""
        state: dict[str, Any] = self.handle.ask("state_dict")
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state."""
        self.handle.ask("load_state_dict", dict(state))

    def save_model(self, folder: Path) -> None:
        """Write a plain Hugging Face folder."""
        self.handle.ask("save_model", Path(folder).absolute())

    def close(self) -> None:
        """End the process."""
        self.handle.close()


class RemoteManager(RewardManager):
    """A reward manager in a process of its own."""

    def __init__(self, spec: RoleSpec) -> None:
        self.handle = ProcessHandle(spec, ("component_names", "failed", "checks_rows"))

    @property
    def component_names(self) -> Sequence[str]:  # type: ignore[override]
        """Score components that a grade may have."""
        return tuple(self.handle.attributes["component_names"])

    @property
    def failed(self) -> int:  # type: ignore[override]
        """Rows so far whose reward failed."""
        return int(self.handle.attributes["failed"])

    @property
    def checks_rows(self) -> bool:  # type: ignore[override]
        """Whether `check_row` has something to say."""
        return bool(self.handle.attributes["checks_rows"])

    def score(self, samples: Sequence[Sample]) -> list[Graded]:
        """Return one grade per sample, in order."""
        grades: list[Graded] = self.handle.ask("score", list(samples))
        return grades

    def check(self, columns: Collection[str]) -> None:
        """Raise RewardError where data of these columns cannot give what a reward reads."""
        self.handle.ask("check", set(columns))

    def check_row(self, data: Mapping[str, Any]) -> None:
        """Raise ValueError for a row that no completion could be graded against."""
        self.handle.ask("check_row", dict(data))

    def first_refused(self, rows: Iterable[Mapping[str, Any]]) -> tuple[int, ValueError] | None:
        """Return the number of the first row that is refused, and why; a thousand rows travel in one message."""
        seen, source = 0, iter(rows)
        while part := [dict(row) for row in islice(source, 1000)]:
            refused: tuple[int, ValueError] | None = self.handle.ask("first_refused", part)
            if refused is not None:
                return seen + refused[0], refused[1]
            seen += len(part)
        return None

    def close(self) -> None:
        """End what it started, and the process; one that does not answer soon is ended without."""
        try:
            self.handle.call("close").result(CLOSING)
        finally:
            self.handle.close()


class RemoteEnvironment:
    """An environment in a process of its own: its episodes live there."""

    def __init__(self, spec: RoleSpec) -> None:
        self.handle = ProcessHandle(spec, ("class_name",))
        self._count = 0

    @property
    def class_name(self) -> str:
        """The name of the environment's own class, for messages."""
        return str(self.handle.attributes["class_name"])

    def __call__(self, row: Mapping[str, Any], *, seed: int) -> Episode:
        """Return what stands for a new episode."""
        self._count += 1
        return _RemoteEpisode(self.handle, self._count, row, seed)

    def close(self) -> None:
        """End the process."""
        self.handle.close()


class _RemoteEpisode(Episode):
    """Stands for an episode in the environment's process, known there by its number."""

    def __init__(self, handle: ProcessHandle, number: int, row: Mapping[str, Any], seed: int) -> None:
        self._handle, self._number, self._row, self._seed = handle, number, row, seed

    async def begin(self) -> str | Sequence[Message] | Sequence[int]:
        begun: str | Sequence[Message] = await self._handle.ask_async("begin", self._number, self._row, self._seed)
        return begun

    async def step(self, turn: Turn) -> Reply | None:
        reply: Reply | None = await self._handle.ask_async("step", self._number, turn)
        return reply

    async def close(self) -> None:
        await self._handle.ask_async("close_episode", self._number)


_STANDS_FOR: Mapping[str, Any] = {
    "sampler": RemoteSampler,
    "trainer": RemoteTrainer,
    "reward_manager": RemoteManager,
    "environment": RemoteEnvironment,
}


# -- in the other process


class HostedSampler:
    """A sampler as its process offers it: what is received is counted and hashed before the sampler has it."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self.class_name = type(sampler).__name__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)

    async def sample(self, request: Request) -> Completion:
        """Return the completion of a request."""
        return await self._sampler.sample(request)

    async def abort(self) -> None:
        """End the requests under way."""
        await self._sampler.abort()

    async def pause(self) -> None:
        """Draw no more tokens until `resume`."""
        await self._sampler.pause()

    async def resume(self) -> None:
        """Go on after `pause`."""
        await self._sampler.resume()

    def receive(self, weights: Sequence[tuple[str, Tensor]], version: int) -> Receipt:
        """Give the weights to the sampler; return what came."""
        return Receipt.of(self._sampler, weights, version)


class HostedTrainer:
    """A trainer as its process offers it: it saves its state there."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trainer, name)

    def save_state(self, folder: Path) -> None:
        """Write the trainer's state into a folder."""
        save_trainer(self._trainer, folder)

    def load_state(self, folder: Path) -> None:
        """Restore the trainer's state from a folder."""
        load_trainer(self._trainer, folder)


class HostedManager:
    """A reward manager as its process offers it: many rows are checked in one call."""

    def __init__(self, manager: RewardManager) -> None:
        self._manager = manager

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def first_refused(self, rows: Sequence[Mapping[str, Any]]) -> tuple[int, ValueError] | None:
        """Return the number of the first row that the manager refuses, and why."""
        return first_refused(self._manager, rows)


class HostedEnvironment:
    """An environment as its process offers it: episodes by number."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self.class_name = environment_name(environment)
        self._episodes: dict[int, Any] = {}

    async def begin(self, number: int, row: Mapping[str, Any], seed: int) -> Any:
        """Make an episode and return what it begins with."""
        self._episodes[number] = check_episode(self._environment, self._environment(row, seed=seed))
        return await self._episodes[number].begin()

    async def step(self, number: int, turn: Turn) -> Any:
        """Return what an episode replies."""
        return await self._episodes[number].step(turn)

    async def close_episode(self, number: int) -> None:
        """End an episode."""
        episode = self._episodes.pop(number, None)
        if episode is not None:
            await episode.close()
