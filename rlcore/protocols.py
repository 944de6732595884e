"""The protocols of services (sampler, trainer, reward manager, ...) and the types that they exchange with a run.

The docstring of each protocol says what a factory of this kind is called with; its keyword-only parameters are options.
A protocol has everything that a run calls. A class may have the protocol as its base: it then inherits the methods that
have a body here and need not write them. What only some services can do is a protocol of its own (`HoldsWeights`,
`ReadsTwoModels`, `GivesGradients`, `KeepsState`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
    """One summand of what an update minimises: coefficient x the sum over tokens of reduction weight x loss.

    `coefficient` is a constant, or the name of a column without dimensions.
    """

    loss: Callable[..., Any]
    reduction: Callable[..., Any]
    coefficient: float | str = 1.0
    name: str = ""


@dataclass(frozen=True)
class Update:
    """What one step does to one role's weights.

    Attributes:
        terms: what is minimised is their sum.
        selects: called in order on the rows of each optimizer update; they narrow the mask or set weights.
        minibatches, epochs: each of the `epochs` goes over the rows once, in `minibatches` optimizer updates.
        provides: columns that the batch need not have -> the readout that gives them. The update computes them with
            the weights that it begins with: `{"old_logprob": "logprob"}` where a step has one optimizer update.
    """

    terms: tuple[Term, ...]
    selects: tuple[Callable[..., Any], ...] = ()
    minibatches: int = 1
    epochs: int = 1
    provides: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Forward:
    """A forward pass of one role's weights: the columns to compute, each with the readout that gives it."""

    wanted: Mapping[str, str]


@dataclass(frozen=True)
class UpdateResult:
    """Metrics of an update, and whether every optimizer update was finite; one that is not is skipped."""

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
    """One completion to draw: prompt ids, how, its own seed, and the group whose prompt it shares.

    `session` names the conversation that it goes on with: what a sampler keeps of one turn's prefix serves the next.
    `inputs` is what the model is given beside ids, such as images: arrays by the name of the model's own argument (see
    `rlcore.train.model.LanguageModel.hidden`).
    """

    prompt: tuple[int, ...]
    params: SamplingParams
    seed: int
    group: int = 0
    session: str = ""
    inputs: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Completion:
    """What a sampler returns: ids, their log-probabilities (nats), log of the kept mass, and why it ended.

    `versions` tells for each token which weights drew it: they may change while a completion is under way.
    """

    tokens: list[int]
    logprob: list[float]
    kept_logmass: list[float]
    stop: Stop
    versions: list[int]


@dataclass(frozen=True)
class Turn:
    """What the policy said in one turn: its text, the ids exactly as they were drawn, and why they ended."""

    text: str
    tokens: Sequence[int]
    stop: Stop


@dataclass(frozen=True)
class Reply:
    """What an episode answers to a turn.

    Attributes:
        observation: what comes next in the conversation: text as it is, messages that the chat template renders, or
            ids. None ends the session, unless `restart` begins a new row.
        stop: end the session after this observation, which is then not shown to the policy.
        restart: messages, text or ids with which a new row of the same session begins, where a conversation's history
            is rewritten. Reward and advantage are the session's; every row of it is trained on.
        reward: of the turn. `reward=environment` sums them; an environment that declares the column `turn_reward` has
            each placed on the last token of its turn.
        columns: values of the columns that the environment declares: of a token column on the turn's last token, of a
            row column for the row.
    """

    observation: str | Sequence[Message] | Sequence[int] | None = None
    stop: bool = False
    restart: str | Sequence[Message] | Sequence[int] | None = None
    reward: float | None = None
    columns: Mapping[str, float] = field(default_factory=dict)


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
    """Return the members of a protocol that an object lacks: all of them where it is a class and not an instance."""
    promised = [n for n in (*getattr(protocol, "__annotations__", {}), *vars(protocol)) if not n.startswith("_")]
    return [name for name in promised if isinstance(thing, type) or not hasattr(thing, name)]


@runtime_checkable
class Sampler(Protocol):
    """Draws completions, one request at a time. What a request gets depends on its prompt, seed and weights alone.

    Called with `(model)`, the loaded `LanguageModel` of the policy, and by name what it asks for of `precision` (the
    one that the trainer computes in). `sample` and `update_weights` are all that must be written by a class that has
    this one as its base.

    Attributes:
        version: of the weights that it holds: the one that it was last given by `update_weights`.
        reports_kept_logmass: `Completion.kept_logmass` is known where top-p, top-k or min-p cut the distribution.
        reads_inputs: it gives `Request.inputs` to the model; a request with any is not made of one that does not.
    """

    version: int = 0
    reports_kept_logmass: bool = False
    reads_inputs: bool = False

    @abstractmethod
    async def sample(self, request: Request) -> Completion:
        """Return the completion of a request. Many are asked for at once, each in a coroutine of its own."""
        ...

    @abstractmethod
    def update_weights(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take over the trainer's weights and their version.

        `weights` gives every parameter once, by its name in the trainer's model; it must be read to its end. A sampler
        that draws from the trainer's own tensors shows that they are the same and copies nothing.

        Raises ModelError for weights that are not those of its model.
        """
        ...

    async def abort(self) -> None:
        """End the requests under way, each with the tokens that it has and `Stop.ABORTED`."""
        return

    async def pause(self) -> None:
        """Draw no more tokens until `resume`; the requests under way wait, so that weights may change."""
        return

    async def resume(self) -> None:
        """Go on after `pause`."""
        return

    def close(self) -> None:
        """End what was started; asked when the run ends."""
        return


@runtime_checkable
class HoldsWeights(Protocol):
    """A trainer or sampler whose weights are tensors of this process, so that they can be compared by name."""

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
    """A trainer that can compute the gradient of an update without applying it: needed by `rlcore diff --on RUN`."""

    frozen: bool

    def gradient(self, batch: Batch, update: Update, **setting: Any) -> dict[str, Tensor]:
        """Return the gradient by parameter of an update over the batch as one minibatch; nothing is changed."""
        ...


@runtime_checkable
class MeasuresLoss(Protocol):
    """A trainer that can compute the loss of an update without applying it: for held-out rows of the data set."""

    def measure(self, batch: Batch, update: Update, **setting: Any) -> Any:
        """Return the loss over the batch as one minibatch and the metrics of its terms, as `rlcore.metrics.Metrics`."""
        ...


@runtime_checkable
class KeepsState(Protocol):
    """A component or service with a state that checkpoints keep and a resumed run restores."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return its state as plain values and tensors."""
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

    def weights(self) -> Mapping[str, Tensor]:
        """Return the live parameters by name."""
        ...

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
        """Train on the batch: `update.epochs` x `update.minibatches` optimizer updates; `version` rises by one.

        `seed` draws the order of the minibatches, `temperature` divides the logits, `scalars` are the columns without
        dimensions, and `max_new_tokens` is the bound on new tokens that reductions may divide by.
        """
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


@runtime_checkable
class SavesItself(Protocol):
    """A trainer that writes its state to files where it lives: in another process, or over many ranks.

    Of any other trainer `state_dict` is written, an entry to a file. A run can begin from the weights of a checkpoint
    (`start_from=RUN@STEP`) if they are the entry `model`, as `rlcore.checkpoint.write_state` writes it.
    """

    def save_state(self, folder: Path) -> None:
        """Write everything that a resumed run needs into an empty folder."""
        ...

    def load_state(self, folder: Path) -> None:
        """Restore what `save_state` wrote."""
        ...


@dataclass(frozen=True)
class Sample:
    """What a reward is called with: Python values, never tensors.

    Attributes:
        prompt: the prompt as text.
        completion: what the policy wrote; the turns of several, a line each.
        messages: the prompt as messages, None where it is plain text.
        data: the columns of the row: `target` and whatever else the data set has.
        conversation: all that was said from the prompt on, what the environment answered included (role "environment"
            where it answered with text alone); the message of a turn that it rewarded has a key `turn_reward`.
    """

    prompt: str
    completion: str
    messages: Sequence[Message] | None
    data: Mapping[str, Any]
    conversation: Sequence[Message] = ()


@dataclass(frozen=True)
class Graded:
    """The score of one completion.

    Attributes:
        score: NaN where the completion is unscored.
        components: named numbers beside the score.
        error: why it is unscored, where the reward failed.
        extracted: the text that the reward read as the answer, for people who read logs; None where it gives none.
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
        component_names: names of all score components that a grade may have, those of rare cases among them.
        failed: how many rows so far are unscored because their reward failed.
        checks_rows: `check_row` does check something. If False, it is not called, and a large file is not read for it.
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
class Episode(Protocol):
    """One session of an environment with the policy.

    Where it can be saved in the middle it has `state_dict` and `load_state_dict` (`KeepsState`); one that cannot is
    begun again from its row and seed after a crash.
    """

    @abstractmethod
    async def begin(self) -> str | Sequence[Message] | Sequence[int]:
        """Return what the policy is first shown: text, messages or ids."""
        ...

    @abstractmethod
    async def step(self, turn: Turn) -> Reply | None:
        """Return what comes after a turn of the policy; None ends the session."""
        ...

    async def close(self) -> None:
        """End what was started; asked once, however the session ended."""
        return


@runtime_checkable
class Environment(Protocol):
    """What the policy talks to: makes an episode for each session. Called with nothing but its options.

    The same row and seed make the same episode: it answers the same to the same turns. What an episode raises ends its
    own session alone, which is then not scored. `TurnEnvironment` is a base for environments that keep no state.

    What is registered (a class, or a function that returns the environment) may have an attribute `columns`: names of
    columns of the table that its replies write, such as `("turn_reward",)`; and an attribute `turns`: the most turns
    that the policy has in an episode, if that is known. Of episodes of a single turn nothing is kept for a next one.
    """

    def __call__(self, row: Mapping[str, Any], *, seed: int) -> Episode:
        """Return a new episode for a row of the data. `seed` is the session's own."""
        ...


class TurnEnvironment:
    """A base for environments whose answer is a function of the row and the policy's turns: nothing is remembered."""

    @abstractmethod
    def begin(self, row: Mapping[str, Any]) -> str | Sequence[Message]:
        """Return the prompt of a new session."""
        ...

    @abstractmethod
    def reply(self, row: Mapping[str, Any], turns: Sequence[str]) -> str | Sequence[Message] | None:
        """Return what comes after the policy's last turn, or None to end the session."""
        ...

    def __call__(self, row: Mapping[str, Any], *, seed: int) -> Episode:
        """Return an episode that keeps the texts of the turns and asks `begin` and `reply`."""
        return _TurnEpisode(self, row)


class _TurnEpisode(Episode):
    """Keeps the texts of the turns for an environment that is a function of them."""

    def __init__(self, environment: TurnEnvironment, row: Mapping[str, Any]) -> None:
        self._environment, self._row = environment, row
        self._turns: list[str] = []

    async def begin(self) -> str | Sequence[Message]:
        return self._environment.begin(self._row)

    async def step(self, turn: Turn) -> Reply | None:
        self._turns.append(turn.text)
        observation = self._environment.reply(self._row, self._turns)
        return None if observation is None else Reply(observation)

    def state_dict(self) -> Mapping[str, Any]:
        return {"turns": list(self._turns)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._turns = list(state["turns"])


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
        """Give the source's weights and version to `target.update_weights`; return the version that it then has.

        Called once before the first step, and after each update. Raises ModelError where it cannot.
        """
        ...
