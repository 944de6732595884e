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
    `readout`: the readout of a model's logits that it holds. `current`: computed from the current weights within an
    update, so only losses and selects can read it. `over_session`: what an estimator is handed of a `B` column when a
    session has several rows: the "last" segment's value, or the "sum" over them. `strict`: a value off
    `sampled` is an error (others are zeroed there). `drawn`: the field of a sampler's `Completion` that it holds.
    `reference_role`: the second role whose logits its readout compares with.
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
            return _row(name, "a column of the data set", "data", dtype="object")
        if family == "weights":
            version = {"dtype": "int", "unit": "version", "rewritable": True, "structural": True}
            return _scalar(name, "version of this role's weights", "update, sync", **version)
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


def _declare(dims: Dims) -> Callable[..., Column]:
    """Return a function that makes a column of these dimensions; it holds floats unless `dtype` says otherwise."""

    def column(name: str, meaning: str, writer: str, *, dtype: str = "float", **rest: Any) -> Column:
        return Column(name=name, dims=dims, dtype=dtype, meaning=meaning, writer=writer, **rest)

    return column


_row, _token, _components, _scalar = map(_declare, (ROW, TOKEN, COMPONENTS, NONE))


_COLUMNS: tuple[Column, ...] = (
    # A rollout: tokens, and which rows belong together.
    _token(
        "tokens", "ids as they were sampled, never encoded again", "rollout", dtype="int", unit="id", structural=True
    ),
    _row("length", "real tokens of the row, without padding", "rollout", dtype="int", unit="tokens", structural=True),
    _row("prompt_length", "tokens of the row's prompt", "rollout", dtype="int", unit="tokens", structural=True),
    _token("sampled", "the policy drew it; never rewritten", "rollout, data", dtype="bool", structural=True),
    _token(
        "mask", "it is trained on; off = in no denominator", "rollout", dtype="bool", rewritable=True, structural=True
    ),
    _row("group", "the drawn prompt of the row, an id unique in the run", "prompts", dtype="int", structural=True),
    _row("session", "the conversation of the row; may have several rows", "rollout", dtype="int", structural=True),
    _row("pair", "the comparison that the row is a side of", "data", dtype="int", structural=True),
    _row("segment", "the row's place in its session", "rollout", dtype="int", structural=True),
    _token("rollout_logprob", "under the distribution that drew the token", "rollout", unit="nats", drawn="logprob"),
    _token(
        "kept_logmass", "log of the mass that top-p, top-k, min-p keep", "rollout", unit="nats", drawn="kept_logmass"
    ),
    _token("token_version", "weight version that sampled it", "rollout", dtype="int", unit="version", structural=True),
    _row("stop", "why it ended, a `rlcore.protocols.Stop`", "rollout", dtype="int", structural=True),
    _row("conversation", "messages: what the policy was shown and said", "rollout", dtype="object", structural=True),
    _row("model_inputs", "what the model is given beside ids, such as images", "data", dtype="object", structural=True),
    _token("turn_reward", "the environment's, on each turn's last token", "rollout", unit="reward", structural=True),
    # Scores, and the reward that is made of them.
    _row("score", "what the reward says; NaN = unscored; never rewritten", "reward", structural=True),
    _components("score_components", "the named components of the score", "reward", structural=True),
    _row("reward", "what is trained on, a sum over the row", "placing", rewritable=True, over_session="sum"),
    _token("token_reward", "the reward placed on tokens; sums to `reward`", "placing", rewritable=True, strict=True),
    # Readouts of the weights that a step starts with.
    _token("old_logprob", "trainer's weights when the step starts", "trainer", unit="nats", readout="logprob"),
    _token("old_entropy", "entropy when the step starts", "trainer", unit="nats", readout="entropy"),
    _token("old_square_sum", "sum of squared probabilities when the step starts", "trainer", readout="square_sum"),
    _token("ref_logprob", "frozen reference", "reference", unit="nats", readout="logprob"),
    _token("reward_model_logprob", "a language model as reward", "reward model", unit="nats", readout="logprob"),
    _token("process_reward", "what each token is worth, besides the outcome", "process reward"),
    _token("value", "critic before the token", "critic", unit="reward", readout="value"),
    _row("bootstrap_value", "critic after the last token", "critic", unit="reward"),
    # Readouts of the current weights: for losses and selects only.
    _token("logprob", "current weights", "trainer", unit="nats", readout="logprob", current=True),
    _token("entropy", "entropy under the current weights", "trainer", unit="nats", readout="entropy", current=True),
    _token(
        "square_sum", "sum of squared probabilities, current weights", "trainer", readout="square_sum", current=True
    ),
    _token(
        "full_kl",
        "KL of the current weights to the reference over the whole vocabulary",
        "trainer",
        unit="nats",
        readout="full_kl",
        current=True,
        reference_role="reference",
    ),
    _token("new_value", "current critic before the token", "critic", unit="reward", readout="value", current=True),
    # Greedy rollouts, corrections, targets.
    _row("greedy_tokens", "ids of a greedy sample of the same prompt", "greedy rollout", dtype="object", unit="id"),
    _row("greedy_reward", "the score of a greedy sample of the same prompt", "greedy reward"),
    _token("weight", "importance weight, detached", "corrections", rewritable=True, structural=True),
    _token("selected", "tokens that a select chose for the loss to treat in its own way", "selects", dtype="bool"),
    _row("chosen", "the preferred row of its pair", "data, pairs", dtype="bool"),
    _token("advantage", "target of the policy", "advantage", unit="reward", rewritable=True),
    _token("returns", "target of the critic", "advantage", unit="reward"),
    # What changes from step to step; options are constants of a run.
    _scalar("kl_coefficient", "coefficient of the KL in the loss", "controllers", rewritable=True),
    _scalar("kl_in_reward_coefficient", "coefficient of the KL in the reward", "controllers", rewritable=True),
    _scalar("progress", "share of the run's steps that are done", "run", structural=True),
    _scalar("seed", "the step's own seed", "run", dtype="int", structural=True),
)

COLUMNS = ColumnTable({column.name: column for column in _COLUMNS})
"""The columns of rlcore itself, by name."""
