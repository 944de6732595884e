"""What the laws are tried on, and how two results are compared."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

import cloudpickle
import torch
from torch import Tensor

from rlcore.columns import COLUMNS, TOKEN
from rlcore.component import invoke, reads
from rlcore.math import Counts, length_mask
from rlcore.protocols import LossOutput

Columns = dict[str, Any]
Component = Callable[..., Any]
Law = Callable[[Component], None]
GARBAGE = (float("nan"), float("-inf"), float("inf"), 1e6)
SINGLE, DOUBLE = 1e-6, 1e-12
"""Largest allowed difference, relative to the largest entry, in float32 and in float64."""


def estimator_columns(seed: int = 0, *, rows: int = 12, width: int = 9, dtype: torch.dtype = torch.float32) -> Columns:
    """Return estimator inputs: a row per session, sampled tokens only, left-aligned, groups unequal and mixed."""
    random = torch.Generator().manual_seed(seed)
    length = torch.randint(1, width + 1, (rows,), generator=random)
    length[0] = width
    real = length_mask(length, width)
    group = torch.randint(0, max(rows // 3, 1), (rows,), generator=random) * 1_000_003 + 17
    columns: Columns = {"length": length, "group": group, "session": torch.arange(rows) + 5}
    columns["prompt_length"] = torch.zeros_like(length)
    columns["mask"] = real & (torch.rand(real.shape, generator=random) < 0.8)
    columns["mask"][:, 0] = True
    columns["sampled"] = real
    for name in ("token_reward", "process_reward", "value", "old_entropy", "advantage"):
        columns[name] = torch.where(real, torch.randn(real.shape, generator=random, dtype=dtype), 0)
    for name in ("old_logprob", "ref_logprob", "rollout_logprob"):
        columns[name] = torch.where(real, -torch.rand(real.shape, generator=random, dtype=dtype), 0)
    # At least the square of the token's own probability, at most what the others can add to it.
    own = columns["old_logprob"].exp()
    others = torch.rand(real.shape, generator=random, dtype=dtype) * (1 - own).square()
    columns["old_square_sum"] = torch.where(real, own.square() + others, 0)
    columns["reward"] = columns["token_reward"].sum(1)
    columns["score"] = columns["reward"].clone()
    columns["greedy_reward"] = torch.randn(rows, generator=random, dtype=dtype)
    columns["score_components"] = torch.randn(rows, 3, generator=random, dtype=dtype)
    columns["bootstrap_value"] = torch.zeros(rows, dtype=dtype)
    return columns


def loss_columns(seed: int = 0, *, rows: int = 8, width: int = 7, dtype: torch.dtype = torch.float32) -> Columns:
    """Return what a loss is handed: whole rows with holes off the mask, one row all off, unequal groups."""
    random = torch.Generator().manual_seed(seed)
    mask = torch.rand(rows, width, generator=random) < 0.6
    mask[0], mask[1], mask[2] = True, False, torch.arange(width) == 2
    columns: Columns = {
        "mask": mask,
        "sampled": mask.clone(),
        "group": torch.randint(0, 3, (rows,), generator=random) * 7,
    }
    columns["length"] = torch.full((rows,), width)

    def normal(scale: float = 1.0) -> Tensor:
        return torch.where(mask, scale * torch.randn(mask.shape, generator=random, dtype=dtype), 0)

    columns["old_logprob"] = -normal().abs()
    columns["logprob"] = (columns["old_logprob"] + normal(0.3)).clamp(max=0)
    columns["ref_logprob"] = (columns["old_logprob"] + normal(0.3)).clamp(max=0)
    columns["rollout_logprob"] = (columns["old_logprob"] + normal(0.1)).clamp(max=0)
    for name in ("advantage", "value", "new_value", "returns"):
        columns[name] = normal()
    columns["entropy"], columns["old_entropy"] = normal().abs(), normal().abs()
    columns["weight"] = mask.to(dtype)
    columns["kept_logmass"] = -0.1 * normal().abs()
    columns["selected"] = mask & (torch.rand(mask.shape, generator=random) < 0.4)
    columns["full_kl"] = normal().abs()
    columns["score"], columns["seed"] = torch.where(torch.arange(rows) % 3 == 0, 1.0, 0.0).to(dtype), 11
    columns["counts"] = Counts.of(mask, columns["group"], max_new_tokens=width)
    return columns


CURRENT = ("logprob", "entropy", "new_value", "square_sum", "full_kl")
"""Columns made from the weights of the moment: what a loss is differentiated by."""


def token_columns(columns: Columns) -> list[str]:
    """Return the float columns with an entry per token."""
    return [n for n, x in columns.items() if _per_token(n, x) and x.is_floating_point()]


def _per_token(name: str, x: Any) -> bool:
    return isinstance(x, Tensor) and x.dim() == 2 and COLUMNS[name].dims == TOKEN


def take_rows(columns: Columns, rows: Tensor) -> Columns:
    """Return the same columns of some rows, in that order."""
    return {n: x[rows] if isinstance(x, Tensor) else x for n, x in columns.items()}


def widened(columns: Columns, by: int = 3, fill: float = 0.0) -> Columns:
    """Return the same columns with more padding at the end of every row."""
    result = dict(columns)
    for name, x in columns.items():
        if _per_token(name, x):
            filling = fill if x.is_floating_point() else 0
            result[name] = torch.cat([x, torch.full((len(x), by), filling).to(x.dtype)], 1)
    return result


def with_garbage(columns: Columns, keep: Tensor, garbage: float) -> Columns:
    """Return the same columns with garbage in every float token column where `keep` is off."""
    return {**columns, **{n: torch.where(keep, columns[n], garbage) for n in token_columns(columns)}}


def fields(result: Any) -> list[Tensor]:
    """Return the tensors of a result: itself, the fields of a NamedTuple, or the loss of a LossOutput."""
    if isinstance(result, LossOutput):
        return [result.loss]
    if isinstance(result, tuple):
        names = getattr(result, "_fields", ("",) * len(result))
        return [entry for name, entry in zip(names, result, strict=True) if name != "metrics"]
    return [result]


def assert_close(result: Tensor, expected: Tensor, label: str, *, scale: float = 0.0) -> None:
    """Fail unless both agree to 1e-6 of the largest entry in float32 and 1e-12 in float64.

    `scale`: the size of the terms that nearly cancel in the entries.
    """
    assert result.shape == expected.shape, f"{label}: shape {tuple(result.shape)} instead of {tuple(expected.shape)}"
    if not expected.numel():
        return
    allowed = (DOUBLE if expected.dtype == torch.float64 else SINGLE) * max(float(expected.abs().max()), scale, 1e-30)
    worst = float((result - expected).abs().max())
    assert worst <= allowed, f"{label}: differs by {worst:.3g}, allowed {allowed:.3g}"


def call_without_trace(component: Component, columns: Columns) -> Any:
    """Return a call's result. Fail if it changes its input or the global random state, or a second call differs."""
    before, state = copy_columns(columns), torch.random.get_rng_state()
    result = invoke(component, columns)
    assert equal_columns(before, columns), "an input was changed"
    assert torch.equal(state, torch.random.get_rng_state()), "the global random generator was used"
    for first, second in zip(fields(result), fields(invoke(component, columns)), strict=True):
        assert _equal(first, second), "a second call gives another result"
    return result


def only_what_it_names(component: Component, columns: Columns) -> None:
    """Fail unless the result stays the same with every column that is not named taken away."""
    named = {read.name for read in reads(component)}
    expected = fields(invoke(component, columns))
    for first, second in zip(
        fields(invoke(component, {n: columns[n] for n in named if n in columns})), expected, strict=True
    ):
        assert _equal(first, second), "a column that is not named had a say"


def copies_agree(component: Component, columns: Columns) -> None:
    """Fail unless a pickled and a by-value copy give the same result."""
    expected = fields(invoke(component, columns))
    for copy in (pickle.loads(pickle.dumps(component)), cloudpickle.loads(cloudpickle.dumps(component))):  # noqa: S301 our own bytes
        for first, second in zip(fields(invoke(copy, columns)), expected, strict=True):
            assert _equal(first, second), "a copy gives another result"


def leaves_no_trace(component: Component, columns: Columns) -> None:
    """Fail if a call changes its input, reads what it does not name, or differs in a second call or of a copy."""
    call_without_trace(component, columns)
    only_what_it_names(component, columns)
    copies_agree(component, columns)


def in_dtype(columns: Columns, dtype: torch.dtype) -> Columns:
    """Return the same columns with every float column in `dtype`."""
    return {n: x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x for n, x in columns.items()}


def _equal(first: Any, second: Any) -> bool:
    if not isinstance(first, Tensor):
        return bool(first == second)
    return (
        torch.equal(first.nan_to_num(), second.nan_to_num())
        if first.is_floating_point()
        else torch.equal(first, second)
    )


def assert_all_close(result: Any, expected: Any, label: str) -> None:
    """Fail unless every field of two results agrees."""
    for first, second in zip(fields(result), fields(expected), strict=True):
        assert_close(first, second, label)


def equal_columns(first: Columns, second: Columns) -> bool:
    """Return whether every tensor is bit for bit the same, NaN included."""
    return all(not isinstance(x, Tensor) or _equal(x, second[n]) for n, x in first.items())


def copy_columns(columns: Columns) -> Columns:
    """Return the same columns in memory of their own."""
    return {n: x.clone() if isinstance(x, Tensor) else x for n, x in columns.items()}


def row_splits(rows: int) -> Iterable[list[Tensor]]:
    """Yield ways to cut rows into microbatches or ranks."""
    yield [torch.tensor([row]) for row in range(rows)]
    yield [torch.arange(rows)[::2], torch.arange(rows)[1::2]]
    yield [torch.arange(3), torch.arange(3, rows)]
    yield [torch.arange(rows).flip(0)]
