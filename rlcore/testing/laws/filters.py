"""Laws of filters."""

from __future__ import annotations

import torch

from rlcore.component import invoke
from rlcore.testing.laws.inputs import Columns, Component, call_without_trace, take_rows


def _filter_columns() -> Columns:
    """Return raw rows, NaN included: mixed, equal, unscored, single and half-scored groups, interleaved."""
    nan = float("nan")
    score = torch.tensor([1.0, 0.35, nan, 0.0, 0.35, nan, 0.5, nan, 0.2, 0.35, 1.0])
    group = torch.tensor([10, 20, 10, 10, 20, 30, 40, 50, 50, 20, 30])
    columns = {"score": score, "group": group, "session": torch.arange(11), "length": torch.full((11,), 3)}
    return {**columns, "score_components": score[:, None], "stop": torch.zeros(11, dtype=torch.int64), "seed": 7}


def filters_return_rows_they_were_given(component: Component) -> None:
    """Indices into the input, whole numbers, and nothing that was handed in is changed."""
    columns = _filter_columns()
    rows = call_without_trace(component, columns)
    assert rows.dtype == torch.int64, f"indices are {rows.dtype}"
    assert rows.dim() == 1, f"indices have shape {tuple(rows.shape)}"
    assert ((rows >= 0) & (rows < len(columns["group"]))).all(), "indices outside the input"


def filters_keep_groups_whole(component: Component) -> None:
    """A group comes through with all of its rows or not at all."""
    columns = _filter_columns()
    rows = invoke(component, columns)
    for name in columns["group"][rows].unique():
        assert (columns["group"][rows] == name).sum() == (columns["group"] == name).sum(), f"part of group {int(name)}"


def filters_follow_the_rows(component: Component) -> None:
    """Another order of the rows lets the same rows through."""
    columns = _filter_columns()
    expected = set(invoke(component, columns).tolist())
    order = torch.randperm(len(columns["group"]), generator=torch.Generator().manual_seed(1))
    assert {int(order[row]) for row in invoke(component, take_rows(columns, order))} == expected


def filters_take_nothing_from_nothing(component: Component) -> None:
    """No row in, no row out."""
    assert not len(invoke(component, take_rows(_filter_columns(), torch.tensor([], dtype=torch.int64))))
