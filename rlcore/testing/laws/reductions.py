"""Laws of reductions: weights that are 0 off the mask and independent of padding and of the split."""

from __future__ import annotations

import torch

from rlcore.component import invoke
from rlcore.math import Counts
from rlcore.testing.laws.inputs import (
    Component,
    assert_close,
    loss_columns,
    row_splits,
    take_rows,
    widened,
)


def reduction_weights_are_shaped_and_0_off_the_mask(component: Component) -> None:
    """[B, T] or [B], finite, never negative, 0 off the mask and for rows without a trained token."""
    columns = loss_columns()
    weights = invoke(component, columns)
    mask = columns["mask"]
    assert weights.shape in (mask.shape, mask.shape[:1]), f"shape {tuple(weights.shape)}"
    assert weights.isfinite().all(), "not finite"
    assert (weights >= 0).all(), "negative"
    off = ~mask if weights.dim() == 2 else ~mask.any(1)
    assert not weights[off].any(), "not 0 off the mask"
    assert weights[~off].all(), "0 on the mask: the token would be lost"


def splits_change_no_weight(component: Component) -> None:
    """A row's weight is the same in every microbatch: counts are those of the whole update."""
    columns = loss_columns(1)
    expected = invoke(component, columns)
    for parts in row_splits(len(columns["mask"])):
        for part in parts:
            assert_close(invoke(component, take_rows(columns, part)), expected[part], f"{len(parts)} parts")


def padding_changes_no_weight(component: Component) -> None:
    """Wider rows have the same weights."""
    columns = loss_columns(2)
    weights, wide = invoke(component, columns), invoke(component, widened(columns))
    assert_close(wide if wide.dim() == 1 else wide[:, : columns["mask"].shape[1]], weights, "wider rows")


def masked_rows_change_no_weight(component: Component) -> None:
    """Rows without a trained token are in no denominator."""
    columns = loss_columns(3)
    kept = columns["mask"].any(1).nonzero().squeeze(1)
    alone = take_rows(columns, kept)
    alone["counts"] = Counts.of(alone["mask"], alone["group"], 7)
    assert_close(invoke(component, columns)[kept], invoke(component, alone), "without the all-masked row")


def nothing_to_train_on_weighs_nothing(component: Component) -> None:
    """With everything masked the weights are 0, not NaN."""
    columns = loss_columns(4)
    columns["mask"] = torch.zeros_like(columns["mask"])
    columns["counts"] = Counts.of(columns["mask"], columns["group"], 7)
    weights = invoke(component, columns)
    assert weights.isfinite().all(), "not finite"
    assert not weights.any(), "not 0"
