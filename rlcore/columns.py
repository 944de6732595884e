"""The column table: every value that may pass between two nodes, with its dimensions, type, unit, meaning and writer.

B rows, T tokens of a row, K named parts. Entry t of every `B T` column is about token t given those before it.
A plugin may declare more; a graph may rename one, and the new name inherits everything but the name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rlcore.errors import RegistryError, unknown

Dims = tuple[str, ...]
ROW: Dims = ("B",)
TOKEN: Dims = ("B", "T")
PARTS: Dims = ("B", "K")
NONE: Dims = ()
DTYPES = ("float", "int", "bool", "object")


@dataclass(frozen=True, kw_only=True)
class Column:
    """One declared column.

    `rewritable`: later nodes may read and write it. `structural`: executor and trainer may look at it by name.
    `readout`: what of the logits it is, so that a trainer can make it. `current`: made from the weights of the
    moment, so only losses and selects can read it. `over_session`: what an estimator is handed of a `B` column when a
    session has several rows: the "last" part's value, or the "sum" over them. `strict`: a value off
    `sampled` is an error (others are zeroed there). `drawn`: the field of a sampler's completion that it is. `beside`:
    the role whose logits its readout looks at too.
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
    beside: str = ""

    def __post_init__(self) -> None:
        if self.dims not in (ROW, TOKEN, PARTS, NONE):
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


COLUMNS = _table(
    # What a rollout is.
    Column(
        name="tokens",
        dims=TOKEN,
        dtype="int",
        meaning="ids as the engine returned them, never re-encoded from text",
        writer="rollout",
        unit="id",
        structural=True,
    ),
    Column(
        name="length",
        dims=ROW,
        dtype="int",
        meaning="real tokens of the row; padding is never recognised by an id",
        writer="rollout",
        unit="tokens",
        structural=True,
    ),
    Column(
        name="prompt_length",
        dims=ROW,
        dtype="int",
        meaning="tokens of the row's prompt",
        writer="rollout",
        unit="tokens",
        structural=True,
    ),
    Column(
        name="sampled",
        dims=TOKEN,
        dtype="bool",
        meaning="a response token to be scored; never rewritten",
        writer="rollout, data",
        structural=True,
    ),
    Column(
        name="mask",
        dims=TOKEN,
        dtype="bool",
        meaning="it is trained on; off = in no denominator",
        writer="rollout",
        rewritable=True,
        structural=True,
    ),
    Column(
        name="group",
        dims=ROW,
        dtype="int",
        meaning="which drawn prompt; unique in the run, made where the prompt is drawn",
        writer="prompts",
        structural=True,
    ),
    Column(
        name="session",
        dims=ROW,
        dtype="int",
        meaning="which trajectory of one policy; may have several rows",
        writer="rollout",
        structural=True,
    ),
    Column(
        name="pair",
        dims=ROW,
        dtype="int",
        meaning="which comparison",
        writer="data",
        structural=True,
    ),
    Column(
        name="part",
        dims=ROW,
        dtype="int",
        meaning="the row's place in its session",
        writer="rollout",
        structural=True,
    ),
    Column(
        name="rollout_logprob",
        dims=TOKEN,
        dtype="float",
        meaning="log-probability under the distribution that drew the token",
        writer="rollout",
        unit="nats",
        drawn="logprob",
    ),
    Column(
        name="kept_logmass",
        dims=TOKEN,
        dtype="float",
        meaning="log of the mass kept by top-p, top-k or min-p",
        writer="rollout",
        unit="nats",
        drawn="kept_logmass",
    ),
    Column(
        name="token_version",
        dims=TOKEN,
        dtype="int",
        meaning="weight version that sampled the token",
        writer="rollout",
        unit="version",
        structural=True,
    ),
    Column(
        name="stop",
        dims=ROW,
        dtype="int",
        meaning="why it ended: 0 finished, 1 length, 2 aborted, 3 environment error",
        writer="rollout",
        structural=True,
    ),
    # What the grader said, and what is trained on.
    Column(
        name="score",
        dims=ROW,
        dtype="float",
        meaning="what the grader said; NaN = not scorable; never rewritten",
        writer="reward",
        structural=True,
    ),
    Column(
        name="scores",
        dims=PARTS,
        dtype="float",
        meaning="the named parts of the score",
        writer="reward",
        structural=True,
    ),
    Column(
        name="reward",
        dims=ROW,
        dtype="float",
        meaning="what is trained on, summed over the row's tokens",
        writer="placing",
        rewritable=True,
        over_session="sum",
    ),
    Column(
        name="token_reward",
        dims=TOKEN,
        dtype="float",
        meaning="the reward placed on tokens; sums to `reward`",
        writer="placing",
        rewritable=True,
        strict=True,
    ),
    # What models say, when the step starts.
    Column(
        name="old_logprob",
        dims=TOKEN,
        dtype="float",
        meaning="trainer's weights when the step starts",
        writer="trainer",
        unit="nats",
        readout="logprob",
    ),
    Column(
        name="old_entropy",
        dims=TOKEN,
        dtype="float",
        meaning="entropy of the trainer's distribution when the step starts",
        writer="trainer",
        unit="nats",
        readout="entropy",
    ),
    Column(
        name="old_square_sum",
        dims=TOKEN,
        dtype="float",
        meaning="sum of squared probabilities when the step starts",
        writer="trainer",
        readout="square_sum",
    ),
    Column(
        name="ref_logprob",
        dims=TOKEN,
        dtype="float",
        meaning="frozen reference",
        writer="reference",
        unit="nats",
        readout="logprob",
    ),
    Column(
        name="reward_model_logprob",
        dims=TOKEN,
        dtype="float",
        meaning="a reward model that is a language model",
        writer="reward model",
        unit="nats",
        readout="logprob",
    ),
    Column(
        name="process_reward",
        dims=TOKEN,
        dtype="float",
        meaning="what each token is worth, beside the outcome",
        writer="process reward",
    ),
    Column(
        name="value",
        dims=TOKEN,
        dtype="float",
        meaning="critic before the token",
        writer="critic",
        unit="reward",
        readout="value",
    ),
    Column(
        name="bootstrap_value",
        dims=ROW,
        dtype="float",
        meaning="critic after the last token",
        writer="critic",
        unit="reward",
    ),
    # What the weights of the moment say: losses and selects only.
    Column(
        name="logprob",
        dims=TOKEN,
        dtype="float",
        meaning="current weights",
        writer="trainer",
        unit="nats",
        readout="logprob",
        current=True,
    ),
    Column(
        name="entropy",
        dims=TOKEN,
        dtype="float",
        meaning="entropy under the current weights",
        writer="trainer",
        unit="nats",
        readout="entropy",
        current=True,
    ),
    Column(
        name="square_sum",
        dims=TOKEN,
        dtype="float",
        meaning="sum of squared probabilities under the current weights",
        writer="trainer",
        readout="square_sum",
        current=True,
    ),
    Column(
        name="full_kl",
        dims=TOKEN,
        dtype="float",
        meaning="KL of the current weights to the reference over the whole vocabulary",
        writer="trainer",
        unit="nats",
        readout="full_kl",
        current=True,
        beside="reference",
    ),
    Column(
        name="new_value",
        dims=TOKEN,
        dtype="float",
        meaning="current critic before the token",
        writer="critic",
        unit="reward",
        readout="value",
        current=True,
    ),
    # Greedy rollouts, corrections, targets.
    Column(
        name="greedy_tokens",
        dims=ROW,
        dtype="object",
        meaning="ids of a greedy sample of the same prompt",
        writer="greedy rollout",
        unit="id",
    ),
    Column(
        name="greedy_reward",
        dims=ROW,
        dtype="float",
        meaning="the score of a greedy sample of the same prompt",
        writer="greedy reward",
    ),
    Column(
        name="weight",
        dims=TOKEN,
        dtype="float",
        meaning="importance weight, detached",
        writer="corrections",
        rewritable=True,
        structural=True,
    ),
    Column(
        name="selected",
        dims=TOKEN,
        dtype="bool",
        meaning="tokens that a select chose for the loss to treat in its own way",
        writer="selects",
    ),
    Column(
        name="chosen",
        dims=ROW,
        dtype="bool",
        meaning="the preferred row of its pair",
        writer="data, pairs",
    ),
    Column(
        name="advantage",
        dims=TOKEN,
        dtype="float",
        meaning="target of the policy",
        writer="advantage",
        unit="reward",
        rewritable=True,
    ),
    Column(
        name="returns",
        dims=TOKEN,
        dtype="float",
        meaning="target of the critic",
        writer="advantage",
        unit="reward",
    ),
    # What changes from step to step; options are constants of a run.
    Column(
        name="kl_coefficient",
        dims=NONE,
        dtype="float",
        meaning="weight of the KL term",
        writer="controllers",
        rewritable=True,
    ),
    Column(
        name="progress",
        dims=NONE,
        dtype="float",
        meaning="share of the run's steps that are done",
        writer="run",
        structural=True,
    ),
    Column(
        name="seed",
        dims=NONE,
        dtype="int",
        meaning="the step's own seed",
        writer="run",
        structural=True,
    ),
)
