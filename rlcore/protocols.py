"""What services promise: sampler, trainer, weight transfer, reward manager, environment, tracker.

Each class says in its text what its factory is called with; keyword-only parameters of a factory are its options. All
that a run asks of a service stands in its protocol: a class that has the protocol as its base takes what it does not
write itself from there, as far as the protocol has an answer. What only some services can do is a protocol of its own
(`HoldsWeights`, `ReadsTwoModels`, `KeepsState`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from rlcore.batch import Batch

if TYPE_CHECKING:
    from rlcore.columns import ColumnTable
    from rlcore.graph import Graph

Message = Mapping[str, Any]
MetricValue = Tensor | tuple[Tensor, str]


class Stop(IntEnum):
    """Why a sampled sequence ended: finished by itself, length limit, aborted, or an error of the environment."""

    FINISHED = 0
    LENGTH = 1
    ABORTED = 2
    ENVIRONMENT_ERROR = 3


class LossOutput(NamedTuple):
    """What a loss may return: values `[B, T]` or `[B]`, and metrics to be reduced over the mask.

    A metric is a tensor `[B, T]` or `[B]` (reduced as its mean) or a pair with "mean", "sum", "max" or "min".
    """

    loss: Tensor
    metrics: Mapping[str, MetricValue]


@dataclass(frozen=True)
class Term:
    """One part of an update: coefficient x the sum over tokens of reduction weight x loss.

    `coefficient` is a constant, or the name of a column without dimensions.
    """

    loss: Callable[..., Any]
    reduction: Callable[..., Any]
    coefficient: float | str = 1.0
    name: str = ""


@dataclass(frozen=True)
class Update:
    """What one step does to one role's weights.

    `provides`: columns that the update makes itself, as the detached readout of its own first pass (`old_logprob`
    when there is one optimizer update per step).
    """

    terms: tuple[Term, ...]
    selects: tuple[Callable[..., Any], ...] = ()
    minibatches: int = 1
    epochs: int = 1
    provides: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Forward:
    """What a node asks of one role's weights: `wanted` columns, each with its readout."""

    wanted: Mapping[str, str]


@dataclass(frozen=True)
class UpdateResult:
    """Metrics of an update, and whether every optimizer update was finite (those that were not are skipped)."""

    metrics: Any
    finite: bool


@dataclass(frozen=True)
class SamplingParams:
    """How to draw a completion. `top_k=0`, `top_p=1` and `min_p=0` keep the whole distribution."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_new_tokens: int = 16
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    greedy: bool = False
    ignore_eos: bool = False


@dataclass(frozen=True)
class Request:
    """One completion to draw: prompt ids, how, its own seed, and the group whose prompt it shares."""

    prompt: tuple[int, ...]
    params: SamplingParams
    seed: int
    group: int = 0


@dataclass(frozen=True)
class Completion:
    """What a sampler returns: ids, their log-probabilities (nats), log of the kept mass, why it ended, the version."""

    tokens: list[int]
    logprob: list[float]
    kept_logmass: list[float]
    stop: Stop
    version: int


@runtime_checkable
class GraphSource(Protocol):
    """What a run trains: anything that gives the graph of a step. `rlcore.algorithm.Algorithm` is the usual one.

    Attributes:
        name: what people call it.
        group_size: samples of each drawn prompt.
        minibatches: optimizer updates of one epoch over a step's rows; a step's prompts must divide by it.
        initial: first values of the columns without dimensions that its graph reads.
    """

    name: str
    group_size: int
    minibatches: int

    @property
    def initial(self) -> Mapping[str, float]:
        """Return first values of the columns without dimensions."""
        ...

    def graph(self, *, reward: Callable[..., Any] | None, environment: Any, table: ColumnTable) -> Graph:
        """Return the graph of one step, for a run's reward and environment, over the declared columns."""
        ...


def missing_members(thing: Any, protocol: type) -> list[str]:
    """Return what a protocol promises and a thing lacks. A class that is no instance lacks everything."""
    promised = [n for n in (*getattr(protocol, "__annotations__", {}), *vars(protocol)) if not n.startswith("_")]
    return [name for name in promised if isinstance(thing, type) or not hasattr(thing, name)]


@runtime_checkable
class Sampler(Protocol):
    """Draws completions. The result of a request depends on its prompt, seed and weights alone.

    Called with `(model)`, the loaded `LanguageModel`, and by name what it asks for of `version` (a function that tells
    the version of the trainer's weights) and `precision` (the one that the trainer computes in).

    Attributes:
        version: of the weights that the next completion is drawn from.
        reports_kept_logmass: `Completion.kept_logmass` is known where top-p, top-k or min-p cut the distribution.
    """

    version: int
    reports_kept_logmass: bool

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request, in order."""
        ...


@runtime_checkable
class HoldsWeights(Protocol):
    """A trainer or sampler whose weights are tensors of this process; what `weight_transfer=shared` needs of both."""

    def weights(self) -> Mapping[str, Tensor]:
        """Return the live parameters by name."""
        ...


@runtime_checkable
class ReadsTwoModels(Protocol):
    """A trainer that can compare its own logits with those of another one: needed only for `full_kl`."""

    def attach_reference(self, other: Any) -> None:
        """Let readouts of two models see what `other` says of the same tokens. Raises ModelError where it cannot."""
        ...


@runtime_checkable
class GivesGradients(Protocol):
    """A trainer that can tell the gradient of an update without making it: needed only to compare algorithms."""

    frozen: bool

    def gradient(self, batch: Batch, update: Update, **setting: Any) -> dict[str, Tensor]:
        """Return the gradient by parameter of an update over the batch as one minibatch; nothing is changed."""
        ...


@runtime_checkable
class KeepsState(Protocol):
    """A component or service that a resumed run puts back where it was."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return all that it depends on, as plain values and tensors."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state, exactly."""
        ...


@runtime_checkable
class Trainer(Protocol):
    """Holds the weights of one role; blind to the algorithm.

    Called with `(config, model)`: a `rlcore.train.trainer.TrainerConfig` and the loaded `LanguageModel` of the role.

    Attributes:
        readouts: names of what it can compute from logits.
        version: how many updates its weights have had.
        frozen: it is never updated, and a checkpoint does not hold it.
    """

    readouts: frozenset[str]
    version: int
    frozen: bool

    def forward(self, batch: Batch, wanted: Mapping[str, str], *, temperature: float) -> dict[str, Tensor]:
        """Return each wanted column flat `[N]`, 0 where `sampled` is off."""
        ...

    def update(
        self,
        batch: Batch,
        update: Update,
        *,
        seed: int,
        temperature: float,
        scalars: Mapping[str, float],
        max_new_tokens: int,
    ) -> UpdateResult:
        """Apply an update over the batch."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return everything that a resumed run needs, bit for bit."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state."""
        ...

    def save_model(self, folder: Path) -> None:
        """Write a plain Hugging Face folder."""
        ...


@dataclass(frozen=True)
class Sample:
    """What a reward is called with: Python values, never tensors.

    Attributes:
        prompt: the prompt as text.
        completion: what the policy wrote.
        messages: the prompt as messages, None where it is plain text.
        data: the columns of the row: `target` and whatever else the data set has.
    """

    prompt: str
    completion: str
    messages: Sequence[Message] | None
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Graded:
    """A score (NaN = not scorable), its named components, the error that made it unscored, what was read as the answer.

    `extracted` is for people: logs and `rlcore reward`; None where a reward found no answer or does not say.
    """

    score: float
    components: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    extracted: str | None = None


@runtime_checkable
class RewardManager(Protocol):
    """Calls rewards, isolates their failures, keeps the order.

    Called with `(reward)`: the reward component with its options bound. `score` is all that must be written by a class
    that has this one as its base.

    Attributes:
        component_names: score components that a grade may have, also rare ones.
        failed: rows so far whose reward failed.
        checks_rows: `check_row` has something to say; without it rows that stay in their file are not read for it.
    """

    component_names: Sequence[str] = ()
    failed: int = 0
    checks_rows: bool = False

    @abstractmethod
    def score(self, samples: Sequence[Sample]) -> list[Graded]:
        """Return one grade per sample, in order."""
        ...

    def check(self, columns: Collection[str]) -> None:
        """Raise RewardError where data of these columns cannot give what a reward reads; asked before a rollout."""
        return

    def check_row(self, data: Mapping[str, Any]) -> None:
        """Raise ValueError for a row that no completion could be graded against; asked before the first step."""
        return

    def close(self) -> None:
        """End what was started; asked when the run ends."""
        return


@runtime_checkable
class Environment(Protocol):
    """What the policy talks to. A single-turn one never replies. Called with nothing but its options."""

    def begin(self, row: Mapping[str, Any]) -> str | Sequence[Message]:
        """Return the prompt of a new session."""
        ...

    def reply(self, row: Mapping[str, Any], turns: Sequence[str]) -> str | Sequence[Message] | None:
        """Return what comes after the policy's last turn, or None to end the session."""
        ...


@runtime_checkable
class Tracker(Protocol):
    """Takes the metrics of each step. A failing tracker warns once and never stops a run.

    Called with nothing but its options. `log` is all that must be written by a class that has this one as its base.

    Attributes:
        immediate: it is quick and local, so that it is called directly; others work in a thread of their own.
    """

    immediate: bool = False

    def check(self) -> None:
        """Raise ConfigError where it cannot work here, such as for a missing package; asked before anything loads."""
        return

    def start(self, *, run: str, project: str, config: Mapping[str, Any], folder: Path) -> None:
        """Open it."""
        return

    @abstractmethod
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Take one step's metrics."""
        ...

    def finish(self) -> None:
        """Close it."""
        return


@runtime_checkable
class WeightTransfer(Protocol):
    """Hands the weights of a trainer to a sampler. Called with nothing but its options."""

    def sync(self, source: Trainer, target: Sampler) -> int:
        """Make the target hold the source's weights; return the version that it then has.

        Called once before the first step, and after each update. Raises ModelError where it cannot.
        """
        ...
