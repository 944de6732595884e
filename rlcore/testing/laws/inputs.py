"""Columns that the laws call components with, changes of such columns, and comparisons of results."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

import cloudpickle
import torch
from torch import Tensor

from rlcore.columns import COLUMNS, NONE, ROW, TOKEN
from rlcore.component import invoke, reads
from rlcore.math import Counts, length_mask
from rlcore.protocols import LossOutput
from rlcore.registry import registry

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
    # Row i and the one half the rows later are the sides of a pair.
    half, place = rows // 2, torch.arange(rows)
    columns["pair"], columns["chosen"] = place % half, ((place % half) % 3 == 0) ^ (place < half)
    columns["counts"] = Counts.of(mask, columns["group"], max_new_tokens=width)
    for name, column in registry().columns.items():
        if name in columns or column.dims not in (TOKEN, ROW, NONE):
            continue
        shape = {TOKEN: (rows, width), ROW: (rows,), NONE: ()}[column.dims]
        drawn = torch.rand(shape, generator=random, dtype=dtype)
        if column.dtype == "bool":
            columns[name] = drawn < 0.5
        elif column.dtype == "float":
            columns[name] = torch.where(mask, drawn, 0) if column.dims == TOKEN else drawn if shape else float(drawn)
    return columns


def correction_columns(seed: int = 0, dtype: torch.dtype = torch.float32) -> Columns:
    """Return columns of a whole update, some tokens far off; `weight` is not all 1."""
    columns = loss_columns(seed, rows=12, width=9, dtype=dtype)
    columns["weight"] = torch.where(columns["mask"], 0.5 + columns["entropy"], 0)
    columns["rollout_logprob"] = columns["rollout_logprob"] * torch.linspace(0.5, 3, 9, dtype=dtype)
    return columns


def filter_columns() -> Columns:
    """Return raw rows, NaN included: mixed, equal, unscored, single and half-scored groups, interleaved."""
    nan = float("nan")
    score = torch.tensor([1.0, 0.35, nan, 0.0, 0.35, nan, 0.5, nan, 0.2, 0.35, 1.0])
    group = torch.tensor([10, 20, 10, 10, 20, 30, 40, 50, 50, 20, 30])
    columns = {"score": score, "group": group, "session": torch.arange(11), "length": torch.full((11,), 3)}
    return {**columns, "score_components": score[:, None], "stop": torch.zeros(11, dtype=torch.int64), "seed": 7}


def shaping_columns(seed: int = 0, *, rows: int = 10, width: int = 8) -> Columns:
    """Return whole rows, 0 off the sampled tokens; some sessions have two rows, the reward stands on the last token."""
    random = torch.Generator().manual_seed(seed)
    sampled = torch.rand(rows, width, generator=random) < 0.6
    sampled[:, 1] = True
    session = torch.arange(rows) + 40
    session[1], session[5] = session[0], session[4]
    segment = torch.zeros(rows, dtype=torch.int64)
    segment[1] = segment[5] = 1
    score = torch.randn(rows, generator=random)
    columns: Columns = {
        "sampled": sampled,
        "mask": sampled & (torch.rand(rows, width, generator=random) < 0.9),
        "session": session,
        "segment": segment,
        "group": torch.div(session, 4, rounding_mode="floor"),
        "tokens": torch.randint(0, 3, (rows, width), generator=random),
        "length": torch.full((rows,), width),
        "prompt_length": torch.ones(rows, dtype=torch.int64),
        "stop": torch.arange(rows) % 2,
        "score_components": torch.randn(rows, 3, generator=random),
        "score": score,
        "kl_coefficient": 0.1,
        "kl_in_reward_coefficient": 0.1,
        "progress": 0.5,
        "seed": 3,
    }
    token_reward = torch.zeros(rows, width)
    last = width - 1 - sampled.flip(1).float().argmax(1)
    token_reward[torch.arange(rows), last] = score
    columns["token_reward"], columns["reward"] = token_reward, token_reward.sum(1)
    for name, column in COLUMNS.items():
        if column.dims == TOKEN and column.dtype == "float" and name not in columns:
            columns[name] = torch.where(sampled, -torch.rand(rows, width, generator=random), 0)
    return columns


def current_columns(columns: Columns) -> list[str]:
    """Return the columns made from the weights of the moment: what a loss is differentiated by."""
    return [name for name in columns if name in registry().columns and registry().columns[name].current]


def token_columns(columns: Columns) -> list[str]:
    """Return the float columns with an entry per token."""
    return [n for n, x in columns.items() if _per_token(n, x) and x.is_floating_point()]


def _per_token(name: str, x: Any) -> bool:
    return isinstance(x, Tensor) and x.dim() == 2 and registry().columns[name].dims == TOKEN


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


def assert_no_trace(component: Component, columns: Columns) -> None:
    """Fail if a call changes its input or the global random state, or if its result depends on more than its columns.

    A second call, a call without the columns that the component does not name, and copies must give the same.
    """
    before = {n: x.clone() if isinstance(x, Tensor) else x for n, x in columns.items()}
    random_state = torch.random.get_rng_state()
    expected = fields(invoke(component, columns))
    assert all(_equal(x, columns[n]) for n, x in before.items()), "an input was changed"
    assert torch.equal(random_state, torch.random.get_rng_state()), "the global random generator was used"
    named = {read.name for read in reads(component)}
    calls = {
        "a second call": (component, columns),
        "a call without the columns that it does not name": (component, {n: columns[n] for n in named & set(columns)}),
        "a pickled copy": (pickle.loads(pickle.dumps(component)), columns),  # noqa: S301 our own bytes
        "a copy by value": (cloudpickle.loads(cloudpickle.dumps(component)), columns),
    }
    for label, (called, inputs) in calls.items():
        for x, y in zip(fields(invoke(called, inputs)), expected, strict=True):
            assert _equal(x, y), f"{label} gives another result"


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
    for x, y in zip(fields(result), fields(expected), strict=True):
        assert_close(x, y, label)


def row_splits(rows: int, together: Tensor | None = None) -> Iterable[list[Tensor]]:
    """Yield ways to cut rows into microbatches or ranks; rows that are equal in `together` [B] stay in one."""
    if together is not None:
        units = [(together == unit).nonzero().flatten() for unit in torch.unique(together)]
        for parts in row_splits(len(units)):
            yield [torch.cat([units[int(unit)] for unit in part]) for part in parts]
        return
    yield [torch.tensor([row]) for row in range(rows)]
    yield [torch.arange(rows)[::2], torch.arange(rows)[1::2]]
    yield [torch.arange(3), torch.arange(3, rows)]
    yield [torch.arange(rows).flip(0)]
