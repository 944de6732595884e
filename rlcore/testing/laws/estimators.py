"""Laws of advantage estimators that are called directly: finite, independent of padding and the order of rows."""

from __future__ import annotations

import torch

from rlcore.component import invoke, reads
from rlcore.math import length_mask
from rlcore.testing.laws.inputs import (
    GARBAGE,
    Component,
    assert_all_close,
    assert_close,
    estimator_columns,
    fields,
    in_dtype,
    take_rows,
    widened,
    with_garbage,
)


def estimates_are_finite_and_shaped(component: Component) -> None:
    """[B] or [B, T], finite, and 0 beyond each row's length."""
    columns = estimator_columns()
    real = length_mask(columns["length"], columns["sampled"].shape[1])
    for x in fields(invoke(component, columns)):
        assert x.shape in (real.shape, real.shape[:1]), f"shape {tuple(x.shape)} is neither [B] nor [B, T]"
        assert x.isfinite().all(), "not finite"
        assert x.dim() == 1 or not x[~real].any(), "not 0 beyond the row's length"


def estimates_follow_the_rows(component: Component) -> None:
    """Another order of the rows gives the same numbers in that order."""
    for dtype in (torch.float32, torch.float64):
        columns = estimator_columns(1, dtype=dtype)
        order = torch.randperm(len(columns["length"]), generator=torch.Generator().manual_seed(0))
        expected = [x[order] for x in fields(invoke(component, columns))]
        for x, y in zip(fields(invoke(component, take_rows(columns, order))), expected, strict=True):
            assert_close(x, y, "another order of the rows")


def estimates_ignore_padding(component: Component) -> None:
    """More padding, whatever stands in it, changes nothing."""
    columns = estimator_columns(2)
    real = length_mask(columns["length"], columns["sampled"].shape[1])
    expected = invoke(component, columns)
    for garbage in (0.0, *GARBAGE):
        dirty = with_garbage(columns, real, garbage)
        padded = invoke(component, widened(dirty, fill=garbage))
        for x, y in zip(fields(padded), fields(expected), strict=True):
            assert_close(x if x.dim() == 1 else x[:, : y.shape[1]], y, f"padding of {garbage}")
            assert x.dim() == 1 or not x[:, y.shape[1] :].any(), f"not 0 in padding of {garbage}"


def estimates_of_a_single_row_are_finite(component: Component) -> None:
    """One row of one token has an answer; compared with nobody, the answer is 0."""
    columns = estimator_columns(3, rows=1, width=1)
    for x in fields(invoke(component, columns)):
        assert x.isfinite().all(), "not finite"
        assert not _is_relative(component) or not x.any(), "a group of one has nothing to be compared with"


def equal_rewards_have_no_advantage(component: Component) -> None:
    """Where all of a group got the same reward, dyadic or not, the advantage is exactly 0."""
    for value in (0.35, 0.95, 0.3, 1.0, -7.7, 1000.1):
        for n in (2, 3, 7):
            columns = estimator_columns(4, rows=n)
            columns["group"] = torch.full((n,), 9)
            columns["reward"] = torch.full((n,), value)
            columns["process_reward"] = torch.zeros_like(columns["token_reward"])
            assert not fields(invoke(component, columns))[0].any(), f"{n} rewards of {value}"


def group_names_mean_nothing(component: Component) -> None:
    """Groups are told apart by their ids and by nothing else."""
    columns = estimator_columns(5)
    renamed = {**columns, "group": columns["group"] * -31 + 2**40}
    assert_all_close(invoke(component, renamed), invoke(component, columns), "other group ids")


def other_groups_have_no_say(component: Component) -> None:
    """A group's rows get what they get alone."""
    columns = estimator_columns(6)
    advantage = fields(invoke(component, columns))[0]
    for name in columns["group"].unique():
        rows = (columns["group"] == name).nonzero().squeeze(1)
        assert_close(fields(invoke(component, take_rows(columns, rows)))[0], advantage[rows], "a group alone")


def estimates_keep_the_type(component: Component) -> None:
    """float64 stays, everything else becomes float32."""
    for dtype, expected in (
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
    ):
        columns = estimator_columns(8, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
        cast = in_dtype(columns, dtype)
        for x in fields(invoke(component, cast)):
            assert x.dtype == expected, f"{dtype} in, {x.dtype} out; compute with rlcore.math.single(x)"


def _is_relative(component: Component) -> bool:
    return any(read.name == "group" for read in reads(component))
