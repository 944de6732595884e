"""Laws of advantage estimators that are called as in a run, by the executor's adapter on the rows of a rollout."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlcore.batch import Batch
from rlcore.execute.adapters import call_on_sessions
from rlcore.graph import Node
from rlcore.testing.laws.inputs import Columns, Component, assert_close

Row = dict[str, Any]
_TOKEN = (
    "token_reward",
    "process_reward",
    "value",
    "advantage",
    "old_logprob",
    "ref_logprob",
    "old_entropy",
    "old_square_sum",
)


def raw_rows(seed: int = 0, *, rows: int = 8) -> list[Row]:
    """Return rows as a rollout makes them, with prompts and observations between the sampled tokens."""
    random = torch.Generator().manual_seed(seed)
    rows_made: list[Row] = []
    for i in range(rows):
        sampled = torch.rand(int(torch.randint(3, 9, (), generator=random)), generator=random) < 0.6
        sampled[1] = True
        row: Row = {n: torch.randn(len(sampled), generator=random, dtype=torch.float64) for n in _TOKEN}
        row["token_reward"] = torch.where(sampled, row["token_reward"], 0)
        row |= {"sampled": sampled, "mask": sampled, "session": 3 * i, "segment": 0, "group": int(i % 3) * 11}
        row["reward"] = float(row["token_reward"].sum())
        row["score_components"] = tuple(torch.randn(3, generator=random, dtype=torch.float64).tolist())
        rows_made.append({**row, "score": row["reward"], "greedy_reward": 0.1 * (i % 3)})
    return rows_made


def estimated(component: Component, rows: list[Row]) -> list[list[Tensor]]:
    """Return what an estimator writes in a run: for each column one value per token of each row."""
    lengths = [len(row["sampled"]) for row in rows]
    columns: Columns = {"length": torch.tensor(lengths)}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if isinstance(values[0], Tensor):
            columns[name] = torch.nn.utils.rnn.pad_sequence(values, batch_first=True)
        else:
            columns[name] = torch.tensor(
                values, dtype=torch.float64 if isinstance(values[0], float | tuple) else torch.int64
            )
    batch = Batch(columns)
    node = Node(component, name="advantage", kind="advantage")
    names = tuple(read.name for read in node.reads if read.name in batch)
    written = call_on_sessions(node, component, batch, names, {})
    return [list(written[name].split(lengths)) for name in node.writes]


def _same_rows(result: list[list[Tensor]], expected: list[list[Tensor]], label: str) -> None:
    for column, expected_column in zip(result, expected, strict=True):
        assert_close(torch.cat(column), torch.cat(expected_column), label)


def unscored_rows_have_no_vote(component: Component) -> None:
    """A row that could not be scored gets 0, and the others what they get without it."""
    rows = raw_rows(1)
    rows[2]["score"] = rows[5]["score"] = float("nan")
    rows[2]["reward"] = 1e6
    advantages = estimated(component, rows)
    kept = [i for i in range(len(rows)) if i not in (2, 5)]
    _same_rows(
        [[x[i] for i in kept] for x in advantages],
        estimated(component, [rows[i] for i in kept]),
        "beside unscored rows",
    )
    assert not any(x[i].any() for x in advantages for i in (2, 5)), "an unscored row has an advantage"


def rows_without_a_trained_token_have_no_vote(component: Component) -> None:
    """A row whose mask is all off gets 0, and the others what they get without it."""
    rows = raw_rows(2)
    rows[4] = {**rows[4], "mask": torch.zeros_like(rows[4]["mask"])}
    advantages = estimated(component, rows)
    kept = [i for i in range(len(rows)) if i != 4]
    _same_rows(
        [[x[i] for i in kept] for x in advantages], estimated(component, [rows[i] for i in kept]), "beside a masked row"
    )
    assert not any(x[4].any() for x in advantages), "a row without a trained token has an advantage"


def observations_have_no_say(component: Component) -> None:
    """Tokens that were not sampled, whatever stands there, get 0; the others what they get with those cut out."""
    rows = raw_rows(3)
    expected = estimated(component, rows)
    compact = [{n: x[row["sampled"]] if isinstance(x, Tensor) else x for n, x in row.items()} for row in rows]
    chosen = [[x[row["sampled"]] for x, row in zip(column, rows, strict=True)] for column in expected]
    _same_rows(chosen, estimated(component, compact), "observations cut out")
    assert not any(x[~row["sampled"]].any() for column in expected for x, row in zip(column, rows, strict=True))
    dirty = [
        {n: torch.where(row["sampled"], row[n], float("nan")) if n in _TOKEN else row[n] for n in row} for row in rows
    ]
    _same_rows(estimated(component, dirty), expected, "NaN off the sampled tokens")


def a_session_of_two_rows_is_one_rollout(component: Component) -> None:
    """A trajectory that stands in two rows counts once and gets what it gets in one row."""
    rows = raw_rows(4)
    cut, row = 2, rows[3]
    parts = [
        {n: x[piece] if isinstance(x, Tensor) else x for n, x in row.items()}
        for piece in (slice(cut), slice(cut, None))
    ]
    parts[1]["segment"] = 1
    for part in parts:
        part["reward"] = float(part["token_reward"].sum())
    advantages = estimated(component, [*rows[:3], parts[0], *rows[4:], parts[1]])
    joined = [[*x[:3], torch.cat([x[3], x[-1]]), *x[4:-1]] for x in advantages]
    _same_rows(joined, estimated(component, rows), "one trajectory in two rows")
