"""The column table: every value that may pass between two nodes, with its dimensions, type, unit, meaning and writer.

B rows, T tokens of a row, K score components. Entry t of every `B T` column is about token t given those before it.
A plugin may declare more; a graph may rename one, and the new name inherits everything but the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlcore.errors import RegistryError, unknown

Dims = tuple[str, ...]
ROW: Dims = ("B",)
TOKEN: Dims = ("B", "T")
COMPONENTS: Dims = ("B", "K")
NONE: Dims = ()
DTYPES = ("float", "int", "bool", "object")


@dataclass(frozen=True, kw_only=True)
class Column:
    """One declared column.

    `rewritable`: later nodes may read and write it. `structural`: executor and trainer may look at it by name.
    `readout`: what of the logits it is, so that a trainer can make it. `current`: made from the weights of the
    moment, so only losses and selects can read it. `over_session`: what an estimator is handed of a `B` column when a
    session has several rows: the "last" segment's value, or the "sum" over them. `strict`: a value off
    `sampled` is an error (others are zeroed there). `drawn`: the field of a sampler's completion that it is.
    `reference_role`: the role whose logits its readout looks at too.
    """

    name: str
    dims: Dims
    dtype: str
    meaning: str
    writer: str
    unit: str = ""
    rewritable: bool = False
    structural: bool = False
    readout: str | None = None
    current: bool = False
    over_session: str = "last"
    strict: bool = False
    drawn: str | None = None
    reference_role: str = ""

    def __post_init__(self) -> None:
        if self.dims not in (ROW, TOKEN, COMPONENTS, NONE):
            raise RegistryError(
                f"column {self.name!r}: dims {self.dims!r} are not one of (), ('B',), ('B', 'T'), ('B', 'K')"
            )
        if self.dtype not in DTYPES:
            raise RegistryError(f"column {self.name!r}: dtype {self.dtype!r} is not one of {', '.join(DTYPES)}")


class ColumnTable(Mapping[str, Column]):
    """Declared columns by name; `data.*` and `weights.*` are families of which any member may be used."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> Column:
        if name in self._columns:
            return self._columns[name]
        family = name.partition(".")[0]
        if family == "data":
            return Column(name=name, dims=ROW, dtype="object", meaning="a column of the data set", writer="data")
        if family == "weights":
            return Column(
                name=name,
                dims=NONE,
                dtype="int",
                meaning="version of this role's weights",
                writer="update, sync",
                unit="version",
                rewritable=True,
                structural=True,
            )
        raise unknown("column", name, self._columns)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __hash__(self) -> int:
        return hash(frozenset(self._columns))

    def __len__(self) -> int:
        return len(self._columns)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._columns or name.partition(".")[0] in ("data", "weights"))

    def declare(self, column: Column, *, owner: str = "this graph") -> ColumnTable:
        """Return a table with one more column. Raises RegistryError if the name is taken by another meaning."""
        known = self._columns.get(column.name)
        if known is not None and known != column:
            raise RegistryError(
                f"column {column.name!r} is already declared ({known.meaning!r}); {owner} declares it again"
            )
        return ColumnTable({**self._columns, column.name: column})

    def rename(self, new: str, old: str) -> ColumnTable:
        """Return a table in which `new`, if unknown, has the dims and meaning of `old`."""
        if new in self:
            return self
        return self.declare(replace(self[old], name=new, current=False))


def _table(*columns: Column) -> ColumnTable:
    return ColumnTable({column.name: column for column in columns})


def _declare(dims: Dims) -> Callable[..., Column]:
    """Return a short way to write the columns of some dimensions: name, type, meaning, and the rest by keyword."""

    def column(name: str, dtype: str, meaning: str, **rest: Any) -> Column:
        return Column(name=name, dims=dims, dtype=dtype, meaning=meaning, **rest)

    return column


_row, _token, _components, _scalar = map(_declare, (ROW, TOKEN, COMPONENTS, NONE))


COLUMNS = _table(
    # What a rollout is.
    _token(
        "tokens",
        "int",
        "ids as the engine returned them, never re-encoded from text",
        writer="rollout",
        unit="id",
        structural=True,
    ),
    _row(
        "length",
        "int",
        "real tokens of the row; padding is never recognised by an id",
        writer="rollout",
        unit="tokens",
        structural=True,
    ),
    _row("prompt_length", "int", "tokens of the row's prompt", writer="rollout", unit="tokens", structural=True),
    _token(
        "sampled", "bool", "a response token to be scored; never rewritten", writer="rollout, data", structural=True
    ),
    _token(
        "mask", "bool", "it is trained on; off = in no denominator", writer="rollout", rewritable=True, structural=True
    ),
    _row(
        "group",
        "int",
        "which drawn prompt; unique in the run, made where the prompt is drawn",
        writer="prompts",
        structural=True,
    ),
    _row("session", "int", "which trajectory of one policy; may have several rows", writer="rollout", structural=True),
    _row("pair", "int", "which comparison", writer="data", structural=True),
    _row("segment", "int", "the row's place in its session", writer="rollout", structural=True),
    _token(
        "rollout_logprob",
        "float",
        "log-probability under the distribution that drew the token",
        writer="rollout",
        unit="nats",
        drawn="logprob",
    ),
    _token(
        "kept_logmass",
        "float",
        "log of the mass kept by top-p, top-k or min-p",
        writer="rollout",
        unit="nats",
        drawn="kept_logmass",
    ),
    _token(
        "token_version",
        "int",
        "weight version that sampled the token",
        writer="rollout",
        unit="version",
        structural=True,
    ),
    _row(
        "stop",
        "int",
        "why it ended: 0 finished, 1 length, 2 aborted, 3 environment error",
        writer="rollout",
        structural=True,
    ),
    _row(
        "conversation",
        "object",
        "messages: what the policy was shown and what it said, the same for all rows of a session",
        writer="rollout",
        structural=True,
    ),
    # What the grader said, and what is trained on.
    _row(
        "score", "float", "what the grader said; NaN = not scorable; never rewritten", writer="reward", structural=True
    ),
    _components("score_components", "float", "the named components of the score", writer="reward", structural=True),
    _row(
        "reward",
        "float",
        "what is trained on, summed over the row's tokens",
        writer="placing",
        rewritable=True,
        over_session="sum",
    ),
    _token(
        "token_reward",
        "float",
        "the reward placed on tokens; sums to `reward`",
        writer="placing",
        rewritable=True,
        strict=True,
    ),
    # What models say, when the step starts.
    _token(
        "old_logprob",
        "float",
        "trainer's weights when the step starts",
        writer="trainer",
        unit="nats",
        readout="logprob",
    ),
    _token(
        "old_entropy",
        "float",
        "entropy of the trainer's distribution when the step starts",
        writer="trainer",
        unit="nats",
        readout="entropy",
    ),
    _token(
        "old_square_sum",
        "float",
        "sum of squared probabilities when the step starts",
        writer="trainer",
        readout="square_sum",
    ),
    _token("ref_logprob", "float", "frozen reference", writer="reference", unit="nats", readout="logprob"),
    _token(
        "reward_model_logprob",
        "float",
        "a reward model that is a language model",
        writer="reward model",
        unit="nats",
        readout="logprob",
    ),
    _token("process_reward", "float", "what each token is worth, beside the outcome", writer="process reward"),
    _token("value", "float", "critic before the token", writer="critic", unit="reward", readout="value"),
    _row("bootstrap_value", "float", "critic after the last token", writer="critic", unit="reward"),
    # What the current weights say: losses and selects only.
    _token("logprob", "float", "current weights", writer="trainer", unit="nats", readout="logprob", current=True),
    _token(
        "entropy",
        "float",
        "entropy under the current weights",
        writer="trainer",
        unit="nats",
        readout="entropy",
        current=True,
    ),
    _token(
        "square_sum",
        "float",
        "sum of squared probabilities under the current weights",
        writer="trainer",
        readout="square_sum",
        current=True,
    ),
    _token(
        "full_kl",
        "float",
        "KL of the current weights to the reference over the whole vocabulary",
        writer="trainer",
        unit="nats",
        readout="full_kl",
        current=True,
        reference_role="reference",
    ),
    _token(
        "new_value",
        "float",
        "current critic before the token",
        writer="critic",
        unit="reward",
        readout="value",
        current=True,
    ),
    # Greedy rollouts, corrections, targets.
    _row("greedy_tokens", "object", "ids of a greedy sample of the same prompt", writer="greedy rollout", unit="id"),
    _row("greedy_reward", "float", "the score of a greedy sample of the same prompt", writer="greedy reward"),
    _token("weight", "float", "importance weight, detached", writer="corrections", rewritable=True, structural=True),
    _token("selected", "bool", "tokens that a select chose for the loss to treat in its own way", writer="selects"),
    _row("chosen", "bool", "the preferred row of its pair", writer="data, pairs"),
    _token("advantage", "float", "target of the policy", writer="advantage", unit="reward", rewritable=True),
    _token("returns", "float", "target of the critic", writer="advantage", unit="reward"),
    # What changes from step to step; options are constants of a run.
    _scalar("kl_coefficient", "float", "coefficient of the KL in the loss", writer="controllers", rewritable=True),
    _scalar(
        "kl_in_reward_coefficient",
        "float",
        "coefficient of the KL in the reward",
        writer="controllers",
        rewritable=True,
    ),
    _scalar("progress", "float", "share of the run's steps that are done", writer="run", structural=True),
    _scalar("seed", "int", "the step's own seed", writer="run", structural=True),
)
