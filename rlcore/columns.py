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


@dataclass(frozen=True)
class Column:
    """One declared column.

    `rewritable`: later nodes may read and write it. `structural`: executor and trainer may look at it by name.
    `readout`: what of the logits it is, so that a trainer can make it. `current`: made from the weights of the
    moment, so only losses and selects can read it. `over_session`: what an estimator is handed of a `B` column when a
    session has several rows: the "last" part's value, or the "sum" over them. `strict`: a value off
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
            return Column(name, ROW, "object", "a column of the data set", "data")
        if family == "weights":
            return Column(name, NONE, "int", "version of this role's weights", "update, sync", "version", True, True)
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


# fmt: off
COLUMNS = _table(
    # What a rollout is.
    Column("tokens", TOKEN, "int", "ids as the engine returned them, never re-encoded from text", "rollout", "id",
           structural=True),
    Column("length", ROW, "int", "real tokens of the row; padding is never recognised by an id", "rollout", "tokens",
           structural=True),
    Column("prompt_length", ROW, "int", "tokens of the row's prompt", "rollout", "tokens", structural=True),
    Column("sampled", TOKEN, "bool", "a response token to be scored; never rewritten", "rollout, data",
           structural=True),
    Column("mask", TOKEN, "bool", "it is trained on; off = in no denominator", "rollout", "", True, True),
    Column("group", ROW, "int", "which drawn prompt; unique in the run, made where the prompt is drawn", "prompts",
           structural=True),
    Column("session", ROW, "int", "which trajectory of one policy; may have several rows", "rollout", structural=True),
    Column("pair", ROW, "int", "which comparison", "data", structural=True),
    Column("part", ROW, "int", "the row's place in its session", "rollout", structural=True),
    Column("rollout_logprob", TOKEN, "float", "log-probability under the distribution that drew the token", "rollout",
           "nats", drawn="logprob"),
    Column("kept_logmass", TOKEN, "float", "log of the mass kept by top-p, top-k or min-p", "rollout", "nats",
           drawn="kept_logmass"),
    Column("token_version", TOKEN, "int", "weight version that sampled the token", "rollout", "version",
           structural=True),
    Column("stop", ROW, "int", "why it ended: 0 finished, 1 length, 2 aborted, 3 environment error", "rollout",
           structural=True),
    # What the grader said, and what is trained on.
    Column("score", ROW, "float", "what the grader said; NaN = not scorable; never rewritten", "reward",
           structural=True),
    Column("scores", PARTS, "float", "the named parts of the score", "reward", structural=True),
    Column("reward", ROW, "float", "what is trained on, summed over the row's tokens", "placing", "", True,
           over_session="sum"),
    Column("token_reward", TOKEN, "float", "the reward placed on tokens; sums to `reward`", "placing", "", True,
           strict=True),
    # What models say, when the step starts.
    Column("old_logprob", TOKEN, "float", "trainer's weights when the step starts", "trainer", "nats",
           readout="logprob"),
    Column("old_entropy", TOKEN, "float", "entropy of the trainer's distribution when the step starts", "trainer",
           "nats", readout="entropy"),
    Column("old_square_sum", TOKEN, "float", "sum of squared probabilities when the step starts", "trainer",
           readout="square_sum"),
    Column("ref_logprob", TOKEN, "float", "frozen reference", "reference", "nats", readout="logprob"),
    Column("reward_model_logprob", TOKEN, "float", "a reward model that is a language model", "reward model", "nats",
           readout="logprob"),
    Column("process_reward", TOKEN, "float", "what each token is worth, beside the outcome", "process reward"),
    Column("value", TOKEN, "float", "critic before the token", "critic", "reward", readout="value"),
    Column("bootstrap_value", ROW, "float", "critic after the last token", "critic", "reward"),
    # What the current weights say: losses and selects only.
    Column("logprob", TOKEN, "float", "current weights", "trainer", "nats", readout="logprob", current=True),
    Column("entropy", TOKEN, "float", "entropy under the current weights", "trainer", "nats", readout="entropy",
           current=True),
    Column("square_sum", TOKEN, "float", "sum of squared probabilities under the current weights", "trainer",
           readout="square_sum", current=True),
    Column("full_kl", TOKEN, "float", "KL of the current weights to the reference over the whole vocabulary",
           "trainer", "nats", readout="full_kl", current=True, reference_role="reference"),
    Column("new_value", TOKEN, "float", "current critic before the token", "critic", "reward", readout="value",
           current=True),
    # Greedy rollouts, corrections, targets.
    Column("greedy_tokens", ROW, "object", "ids of a greedy sample of the same prompt", "greedy rollout", "id"),
    Column("greedy_reward", ROW, "float", "the score of a greedy sample of the same prompt", "greedy reward"),
    Column("weight", TOKEN, "float", "importance weight, detached", "corrections", "", True, True),
    Column("selected", TOKEN, "bool", "tokens that a select chose for the loss to treat in its own way", "selects"),
    Column("chosen", ROW, "bool", "the preferred row of its pair", "data, pairs"),
    Column("advantage", TOKEN, "float", "target of the policy", "advantage", "reward", True),
    Column("returns", TOKEN, "float", "target of the critic", "advantage", "reward"),
    # What changes from step to step; options are constants of a run.
    Column("kl_coefficient", NONE, "float", "coefficient of the KL in the loss", "controllers", "", True),
    Column("kl_in_reward_coefficient", NONE, "float", "coefficient of the KL in the reward", "controllers", "", True),
    Column("progress", NONE, "float", "share of the run's steps that are done", "run", structural=True),
    Column("seed", NONE, "int", "the step's own seed", "run", structural=True),
)
# fmt: on
