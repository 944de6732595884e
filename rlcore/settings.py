"""The settings of a run: every value that is not a component, typed, with its default and what it means.

A component's own options stand in its signature and nowhere else.
"""

from __future__ import annotations

import functools
import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, le=1)]


def _refuse_not_finite(value: Any) -> None:
    """Refuse NaN and infinity, written as text too: what a bound says of NaN, that it is not below it, misleads."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return  # the type's own words are better
    if not math.isfinite(number):
        raise ValueError(f"not finite; expected a finite number, found {value}")


class Section(BaseModel):
    """A group of settings: unknown keys are errors, values do not change."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=False, arbitrary_types_allowed=True, use_attribute_docstrings=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_bool_for_number(cls, value: Any, info: Any) -> Any:
        annotation = str(cls.model_fields[info.field_name].annotation)
        number = "int" in annotation or "float" in annotation
        if isinstance(value, bool) and "bool" not in annotation and number:
            raise ValueError(f"expected a number, got {value}")
        for one in (value if isinstance(value, list | tuple) else [value]) if number else ():
            _refuse_not_finite(one)
        return value


def _not_empty(value: str) -> str:
    """Refuse a text that every other text contains."""
    if not value:
        raise ValueError("expected a text of at least one character, found an empty one, which is found everywhere")
    return value


Text = Annotated[str, AfterValidator(_not_empty)]


class Sampling(Section):
    """How completions are drawn while training."""

    temperature: Annotated[float, Field(gt=0)] = 1.0
    """The trainer's log-probabilities are taken at this temperature too."""
    top_p: Share = 1.0
    top_k: Count = 0
    """0 keeps all tokens."""
    min_p: Annotated[float, Field(ge=0, lt=1)] = 0.0
    stop: tuple[Text, ...] = ()
    """Strings that end a completion; they stay part of it."""
    ignore_eos: bool = False
    """Draw every completion to its full length: for measurements of speed."""


class Training(Section):
    """How weights are updated."""

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """bfloat16 is autocast over float32 weights; auto takes it where the device is fast at it."""
    token_budget: Positive = 8192
    """Tokens of a microbatch; changes memory and speed, never results."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    share_prompts: bool = True
    """The samples of one prompt share its computation."""


class WarmStart(Section):
    """Supervised training before the first step, on the `warm` split of the data set, cached by what went into it."""

    epochs: Count = 0
    """0: no warm start."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    rows: Positive = 16
    """Rows of an update."""


class Data(Section):
    """Where prompts come from; the data set's own options may stand beside these."""

    model_config = ConfigDict(extra="allow", frozen=True)

    path: str | None = None
    prompt_key: str | None = None
    answer_key: str | None = None
    system_prompt: str | None = None


class Eval(Section):
    """Held-out problems, graded before the first step, every so many steps, and after the last."""

    every: Count = 0
    """0: only before and after."""
    data: str | None = None
    """A file, or the name of a split of the run's data set; None: its `heldout` split, if it has one."""
    samples: Positive = 1
    """Completions per problem."""
    limit: Count = 0
    """At most so many problems; 0: all."""
    greedy: bool = False
    temperature: Annotated[float, Field(gt=0)] = 1.0


class Save(Section):
    """Checkpoints."""

    every: Count = 0
    """0: only at the end of the run and on a signal."""
    keep: Positive = 2
    rollouts: bool = False
    """Keep every step's rollouts whole, to be replayed into another algorithm."""


class RunNames(Section):
    """Where a run is kept and what it is called."""

    name: str | None = None
    project: str = "rlcore"
    folder: str = "runs"

    @field_validator("name", "project")
    @classmethod
    def _plain_names(cls, value: str | None) -> str | None:
        # A time is put behind a project, and the whole is the name of a folder too: at most 255 bytes.
        if value is not None and (
            value in ("", ".", "..")
            or any(c in value for c in "/\\")
            or not value.isprintable()
            or len(value.encode()) > 200
        ):
            raise ValueError(
                "must be a plain folder name: 1 to 200 bytes, not . or .., without / \\ and control characters"
            )
        return value

    @field_validator("folder")
    @classmethod
    def _a_path(cls, value: str) -> str:
        if not value or not value.isprintable():
            raise ValueError("must be the path of a folder, without control characters")
        return value


class Model(Section):
    """The model: a folder, `hf:ORG/NAME`, `modelscope:ORG/NAME`, or a registered name."""

    source: str
    chat_template: str | None = None
    trust_code: bool = False
    """Run the Python files that come with the model."""


class RunLimits(Section):
    """Bounds of a run, past which it stops, and of a session, past which the session ends."""

    max_rounds: Positive = 10
    """Rounds of refill within a step, while a filter drops groups."""
    when_underfilled: Literal["error", "skip", "train"] = "error"
    """If filters leave fewer than `prompts` groups after `max_rounds`: `error` stops the run; `skip` keeps the groups
    for the next step; `train` updates on the groups there are, if there are any. A skipped step is a step of the run;
    the schedule of the learning rate, which counts updates, stands still."""
    max_skipped: Positive = 5
    """Non-finite updates in a row."""
    max_turns: Positive = 16
    """Turns of the policy in a session; one that has had them ends as cut off."""
    turn_seconds: Annotated[float, Field(gt=0)] = 600.0
    """Seconds that an episode may take to begin or to answer a turn; one that takes longer ends by an error, unscored.
    What blocks the event loop (no `await`) cannot be interrupted, and holds all sessions: let such an environment
    do its work in threads (`asyncio.to_thread`)."""


class Execution(Section):
    """Where the roles of a run live."""

    mode: Literal["local", "process"] = "local"
    """`local`: all in this process, sampler and trainer on the same weights; `process`: each in one of its own."""
    deterministic: bool = False
    """Weights change only between the rollouts of two steps, so that equal runs are equal bit for bit with
    max_weight_age above 0 too; with 0 they always are."""
    deadline: Annotated[float, Field(gt=0, le=1e7)] = 3600.0
    """Seconds that a role in another process may take for one call; past them the run stops and says who hangs."""


class Role(Section):
    """One role of the graph, where it differs from the run: `roles.reference.model=FOLDER`."""

    model: Annotated[str, Field(min_length=1)] | None = None
    """Weights of its own, as `model` names them; None: the run's model."""
    learning_rate: Annotated[float, Field(ge=0)] | None = None
    device: Literal["auto", "cpu", "cuda", "mps"] | None = None
    execution: Literal["local", "process"] | None = None


class Sweep(Section):
    """A sweep of several runs: `rlcore train -m`."""

    metric: str = "success_after"
    """The number of a run's summary that a sweeper optimises."""


DEFAULT_STEPS = 100
"""Steps of a run that is told neither `steps` nor `epochs`."""


class Settings(Section):
    """Everything a run is told beside its components."""

    steps: Positive | None = None
    """Steps of the run; or `epochs` over the data, one of the two. Neither: `DEFAULT_STEPS`."""
    epochs: Annotated[float, Field(gt=0)] | None = None
    prompts: Positive = 16
    """Prompts of a step; `algorithm.group_size` samples are drawn of each."""
    max_prompt_tokens: Positive = 1024
    long_prompts: Literal["error", "filter", "left", "right", "middle"] = "filter"
    max_new_tokens: Positive = 256
    learning_rate: Annotated[float, Field(ge=0)] = 1e-6
    model: Model
    data: Data = Data()
    sampling: Sampling = Sampling()
    training: Training = Training()
    warm_start: WarmStart = WarmStart()
    eval: Eval = Eval()
    save: Save = Save()
    run: RunNames = RunNames()
    limits: RunLimits = RunLimits()
    execution: Execution = Execution()
    max_weight_age: Count = 0
    """By how many updates the weights that draw a row may be older than those that are trained on it. 0: rollout and
    update take turns; above it rollouts of the next steps run beside the update, and the sampler has a copy of the
    weights."""
    roles: dict[str, Role] = {}
    """Roles that differ from the run, by their names in the graph; `reward` and `environment` are roles too."""
    sweep: Sweep = Sweep()
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    threads: Count = 0
    """CPU threads; 0 leaves torch's own choice."""
    seed: Count = 0
    reflection_phrases: tuple[Text, ...] = ()
    """Phrases whose share among completions is reported, in any case."""
    resume: str | None = None
    """A run's folder: goes on from its newest whole checkpoint."""
    start_from: str | None = None
    """`RUN` or `RUN@STEP`: a new run from these weights."""
    replay: str | None = None
    """A run that kept its rollouts (`save.rollouts`): take them, step by step, in place of sampling."""

    @field_validator("reflection_phrases", mode="before")
    @classmethod
    def _one_is_a_tuple(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("execution", mode="before")
    @classmethod
    def _mode_alone(cls, value: Any) -> Any:
        return {"mode": value} if isinstance(value, str) else value

    @field_validator("model", mode="before")
    @classmethod
    def _source_alone(cls, value: Any) -> Any:
        return {"source": str(value)} if isinstance(value, str) or hasattr(value, "__fspath__") else value

    @model_validator(mode="after")
    def _one_length(self) -> Settings:
        if self.steps is not None and self.epochs is not None:
            raise ValueError(f"steps={self.steps} and epochs={self.epochs} are both set; a run has one length")
        return self


REWARD, ENVIRONMENT = "reward", "environment"
"""The roles of a run that hold no weights."""

ALONE = {"model": "source", "execution": "mode"}
"""Sections whose first setting may be written without its name: `model=FOLDER`, `execution=process`."""

RESUMABLE = ("execution", "steps", "epochs", "save", "eval", "limits", "tracker", "resume", "run", "sweep", "threads")
"""Settings that a resumed run may change."""


@functools.cache
def sections() -> dict[str, type[Section]]:
    """Return the settings that are sections, groups of settings under one key, by name."""
    annotations = {name: field.annotation for name, field in Settings.model_fields.items()}
    return {n: kind for n, kind in annotations.items() if isinstance(kind, type) and issubclass(kind, Section)}
