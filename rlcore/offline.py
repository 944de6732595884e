"""OfflineAlgorithm: an algorithm whose rows come from the data set and are drawn by no policy.

Supervised training, losses over pairs of answers, reward models: a step is prompts -> rows -> (reference) -> update.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from rlcore.columns import ColumnTable
from rlcore.component import Component, is_stateful, name_of
from rlcore.data import Row, RowEncoder, TokenRow
from rlcore.errors import ConfigError, DataError
from rlcore.graph import Graph, Node
from rlcore.protocols import Forward, Term, Update
from rlcore.registry import registry


def completions(row: Row, encode: RowEncoder) -> TokenRow:
    """Return a data row's prompt and `completion`, or its `messages`, as ids; answers are learned, prompts are not.

    Raises DataError for a row without either.
    """
    return encode.completion(row)


def pairs(row: Row, encode: RowEncoder) -> list[TokenRow]:
    """Return two rows for a data row: its prompt with the answer that was `chosen`, and with the one `rejected`.

    Raises DataError for a data row that lacks one of them.
    """
    row = answers_apart(row)
    sides = {name: row[name] for name in ("chosen", "rejected")}
    return [encode.answer(row, side)._replace(columns={"chosen": name == "chosen"}) for name, side in sides.items()]


pairs.columns = ("chosen", "pair")  # type: ignore[attr-defined]


def answers_apart(row: Row) -> Row:
    """Return a row of a pair whose `chosen` and `rejected` are answers alone.

    Published data often holds whole conversations there, equal up to the last message: that is the answer, and what
    stands before it the prompt. Raises DataError where a side is missing, or they differ before their last message.
    """
    sides = check_columns(row, "chosen", "rejected")
    whole = [side for side in sides.values() if isinstance(side, list) and len(side) > 1]
    if not whole:
        return row
    before = [side[:-1] for side in whole]
    if len(whole) == 1 or before[0] != before[1]:
        raise DataError(
            "chosen and rejected are conversations that differ before their last message, so that they answer "
            "no common prompt"
        )
    if isinstance(row.get("prompt"), list) and row["prompt"] != before[0]:
        raise DataError("chosen and rejected are conversations that do not begin with the row's prompt")
    return {**row, "prompt": before[0], **{name: side[-1:] for name, side in sides.items()}}


def check_columns(row: Row, *names: str) -> dict[str, Any]:
    """Return columns of a data row by name. Raises DataError that says which are missing, and what there is."""
    missing = [name for name in names if row.get(name) in (None, "", [])]
    if missing:
        raise DataError(
            f"the row has no {' and no '.join(missing)}; it needs {', '.join(names)}. It has: "
            f"{', '.join(key for key, value in row.items() if value not in (None, '', []))}"
        )
    return {name: row[name] for name in names}


@dataclass(frozen=True)
class OfflineAlgorithm:
    """Rows of the data set, a loss over them, and how it is summed.

    Args:
        rows: `(row, encode) -> TokenRow` or several: a data row as ids, with an `rlcore.data.RowEncoder`; or, with a
            parameter `rows`, all data rows of a step at once. Its attribute `columns` names what its rows bring beside
            ids.
        loss, reduction: of the policy's update, as in `rlcore.Algorithm`; a loss over pairs reads `pair` and `chosen`.
            One that reads `new_value` trains a head of one number in place of the language model's.
        nodes: further nodes between rows and update, in order; `old_logprob` and `ref_logprob` are there for them.
        terms: further terms of the loss. epochs, minibatches: as in `rlcore.Algorithm`.

    Raises ConfigError for numbers or components that do not fit together.
    """

    name: str
    rows: Component
    loss: Component
    reduction: Component
    nodes: tuple[Node, ...] = ()
    terms: tuple[Term, ...] = ()
    epochs: int = 1
    minibatches: int = 1

    group_size: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for number in ("epochs", "minibatches"):
            value = getattr(self, number)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(
                    f"algorithm {self.name!r}: {number} must be a whole number of at least 1, got {value!r}"
                )
        for slot in ("rows", "loss", "reduction"):
            component = getattr(self, slot)
            if not callable(component):
                raise ConfigError(f"algorithm {self.name!r}: {slot}={component!r:.80} is no function")
        if is_stateful(self.loss) or is_stateful(self.reduction):
            raise ConfigError(
                f"algorithm {self.name!r}: {name_of(self.loss)} and {name_of(self.reduction)} are called inside an "
                f"update, which keeps no state: write functions"
            )

    @property
    def initial(self) -> dict[str, float]:
        """Return first values of the columns without dimensions: none."""
        return {}

    def graph(
        self,
        *,
        reward: Callable[..., Any] | None = None,
        environment: Any = None,
        table: ColumnTable | None = None,
        title: str = "",
    ) -> Graph:
        """Return the graph of one step, over all declared columns unless a table is given; a reward has no node."""
        table = table if table is not None else registry().columns
        update = Update(
            (Term(self.loss, self.reduction), *self.terms), minibatches=self.minibatches, epochs=self.epochs
        )
        forward = [
            Node(Forward({column: "logprob"}), name=column, kind="forward", role=role, table=table)
            for column, role in (("old_logprob", "trainer"), ("ref_logprob", "reference"))
        ]
        return Graph(
            (
                Node(name="prompts", kind="prompts"),
                Node(self.rows, name="rows", kind="rows", table=table),
                *forward,
                *self.nodes,
                Node(update, name="update", kind="update", role="trainer", table=table),
            ),
            title=title or self.name,
            table=table,
        )
