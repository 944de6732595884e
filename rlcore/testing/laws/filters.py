"""Laws of filters: they return indices of rows that they were given, and keep groups whole."""

from __future__ import annotations

import torch

from rlcore.component import invoke
from rlcore.testing.laws.inputs import Component, filter_columns, take_rows


def filters_return_rows_they_were_given(component: Component) -> None:
    """The result is int64 indices into the input."""
    columns = filter_columns()
    rows = invoke(component, columns)
    assert rows.dtype == torch.int64, f"indices are {rows.dtype}"
    assert rows.dim() == 1, f"indices have shape {tuple(rows.shape)}"
    assert ((rows >= 0) & (rows < len(columns["group"]))).all(), "indices outside the input"


def filters_keep_groups_whole(component: Component) -> None:
    """A group comes through with all of its rows or not at all."""
    columns = filter_columns()
    rows = invoke(component, columns)
    for name in columns["group"][rows].unique():
        assert (columns["group"][rows] == name).sum() == (columns["group"] == name).sum(), f"part of group {int(name)}"


def filters_follow_the_rows(component: Component) -> None:
    """Another order of the rows lets the same rows through."""
    columns = filter_columns()
    expected = set(invoke(component, columns).tolist())
    order = torch.randperm(len(columns["group"]), generator=torch.Generator().manual_seed(1))
    assert {int(order[row]) for row in invoke(component, take_rows(columns, order))} == expected


def filters_take_nothing_from_nothing(component: Component) -> None:
    """No row in, no row out."""
    assert not len(invoke(component, take_rows(filter_columns(), torch.tensor([], dtype=torch.int64))))
