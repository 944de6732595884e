"""Laws that every component of a kind must keep, as plain functions of it that raise AssertionError.

`LAWS[kind]` lists them; `applies(law, component)` tells whether a law speaks of this component (by the columns it
reads). Nothing here knows a component's name, and nothing needs pytest.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import cloudpickle
import torch
from torch import Tensor

from rlcore.component import invoke, name_of, reads, source_of
from rlcore.math import Counts, length_mask, weighted_loss
from rlcore.protocols import LossOutput

Columns = dict[str, Any]
Component = Callable[..., Any]
Law = Callable[[Component], None]
GARBAGE = (float("nan"), float("-inf"), float("inf"), 1e6)
SINGLE, DOUBLE = 1e-6, 1e-12
"""Largest allowed difference, relative to the largest entry, in float32 and in float64."""


# -- what the laws are tried on


def estimator_columns(seed: int = 0, *, rows: int = 12, width: int = 9, dtype: torch.dtype = torch.float32) -> Columns:
    """What an estimator is handed: one row per session, sampled tokens only, left-aligned, groups unequal and mixed."""
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
    for name in ("token_reward", "value", "old_entropy", "advantage"):
        columns[name] = torch.where(real, torch.randn(real.shape, generator=random, dtype=dtype), 0)
    for name in ("old_logprob", "ref_logprob", "rollout_logprob"):
        columns[name] = torch.where(real, -torch.rand(real.shape, generator=random, dtype=dtype), 0)
    columns["old_square_sum"] = torch.where(real, torch.rand(real.shape, generator=random, dtype=dtype), 0)
    columns["reward"] = columns["token_reward"].sum(1)
    columns["score"] = columns["reward"].clone()
    columns["greedy_reward"] = torch.randn(rows, generator=random, dtype=dtype)
    columns["bootstrap_value"] = torch.zeros(rows, dtype=dtype)
    return columns


def loss_columns(seed: int = 0, *, rows: int = 8, width: int = 7, dtype: torch.dtype = torch.float32) -> Columns:
    """What a loss is handed: whole rows with holes off the mask, one row all off, unequal groups."""
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
    columns["counts"] = Counts.of(mask, columns["group"], max_new_tokens=width)
    return columns


CURRENT = ("logprob", "entropy", "new_value", "square_sum")
"""Columns made from the weights of the moment: what a loss is differentiated by."""


def token_columns(columns: Columns) -> list[str]:
    """The float columns with an entry per token."""
    return [n for n, x in columns.items() if isinstance(x, Tensor) and x.dim() == 2 and x.is_floating_point()]


def of_rows(columns: Columns, rows: Tensor) -> Columns:
    """The same columns of some rows, in that order."""
    return {n: x[rows] if isinstance(x, Tensor) else x for n, x in columns.items()}


def widened(columns: Columns, by: int = 3, fill: float = 0.0) -> Columns:
    """The same columns with more padding at the end of every row."""
    result = dict(columns)
    for name, x in columns.items():
        if isinstance(x, Tensor) and x.dim() == 2:
            filling = fill if x.is_floating_point() else 0
            result[name] = torch.cat([x, torch.full((len(x), by), filling).to(x.dtype)], 1)
    return result


def with_garbage(columns: Columns, keep: Tensor, garbage: float) -> Columns:
    """The same columns with garbage in every float token column where `keep` is off."""
    return {**columns, **{n: torch.where(keep, columns[n], garbage) for n in token_columns(columns)}}


def fields(result: Any) -> list[Tensor]:
    """The tensors of a result: itself, the fields of a NamedTuple, or the loss of a LossOutput."""
    if isinstance(result, LossOutput):
        return [result.loss]
    return list(result) if isinstance(result, tuple) else [result]


def same(found: Tensor, expected: Tensor, what: str) -> None:
    """Fail unless both agree to 1e-6 of the largest entry in float32 and 1e-12 in float64."""
    assert found.shape == expected.shape, f"{what}: shape {tuple(found.shape)} instead of {tuple(expected.shape)}"
    if not expected.numel():
        return
    allowed = (DOUBLE if expected.dtype == torch.float64 else SINGLE) * max(float(expected.abs().max()), 1e-30)
    worst = float((found - expected).abs().max())
    assert worst <= allowed, f"{what}: differs by {worst:.3g}, allowed {allowed:.3g}"


def _all_same(found: Any, expected: Any, what: str) -> None:
    for one, other in zip(fields(found), fields(expected), strict=True):
        same(one, other, what)


def _equal_columns(one: Columns, other: Columns) -> bool:
    return all(not isinstance(x, Tensor) or torch.equal(x, other[n]) for n, x in one.items())


def _copy(columns: Columns) -> Columns:
    return {n: x.clone() if isinstance(x, Tensor) else x for n, x in columns.items()}


# -- any kind


def names_its_source(component: Component) -> None:
    """The docstring says where the formula is from and what differs."""
    source = source_of(component)
    text = f"{inspect.getdoc(source) or ''}\n{inspect.getdoc(inspect.getmodule(source)) or ''}".lower()
    assert any(mark in text for mark in ("arxiv", "doi", "source", "joschu")), f"{name_of(component)} names no source"


def survives_copying(component: Component) -> None:
    """A pickled copy, by reference and by value, is the same component."""
    for copy in (pickle.loads(pickle.dumps(component)), cloudpickle.loads(cloudpickle.dumps(component))):
        assert name_of(copy) == name_of(component)
        assert reads(copy) == reads(component)


# -- estimators


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
        for x, y in zip(fields(invoke(component, of_rows(columns, order))), expected, strict=True):
            same(x, y, "another order of the rows")


def estimates_ignore_padding(component: Component) -> None:
    """More padding, whatever stands in it, changes nothing."""
    columns = estimator_columns(2)
    real = length_mask(columns["length"], columns["sampled"].shape[1])
    expected = invoke(component, columns)
    for garbage in (0.0, *GARBAGE):
        dirty = with_garbage(columns, real, garbage)
        found = invoke(component, widened(dirty, fill=garbage))
        for x, y in zip(fields(found), fields(expected), strict=True):
            same(x if x.dim() == 1 else x[:, : y.shape[1]], y, f"padding of {garbage}")
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
            assert not fields(invoke(component, columns))[0].any(), f"{n} rewards of {value}"


def group_names_mean_nothing(component: Component) -> None:
    """Groups are told apart by their ids and by nothing else."""
    columns = estimator_columns(5)
    renamed = {**columns, "group": columns["group"] * -31 + 2**40}
    _all_same(invoke(component, renamed), invoke(component, columns), "other group ids")


def other_groups_have_no_say(component: Component) -> None:
    """A group's rows get what they get alone."""
    columns = estimator_columns(6)
    whole = fields(invoke(component, columns))[0]
    for name in columns["group"].unique():
        rows = (columns["group"] == name).nonzero().squeeze(1)
        same(fields(invoke(component, of_rows(columns, rows)))[0], whole[rows], "a group alone")


def estimates_leave_their_input(component: Component) -> None:
    """What is handed in is not changed."""
    columns = estimator_columns(7)
    before = _copy(columns)
    invoke(component, columns)
    assert _equal_columns(before, columns), "an input was changed"


def estimates_keep_the_type(component: Component) -> None:
    """float64 stays, everything else becomes float32."""
    for given, expected in (
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
    ):
        columns = estimator_columns(8, dtype=torch.float64 if given == torch.float64 else torch.float32)
        cast = {n: x.to(given) if isinstance(x, Tensor) and x.is_floating_point() else x for n, x in columns.items()}
        for x in fields(invoke(component, cast)):
            assert x.dtype == expected, f"{given} in, {x.dtype} out"


def _is_relative(component: Component) -> bool:
    return any(read.name == "group" for read in reads(component))


# -- losses


def _loss(component: Component, columns: Columns) -> Tensor:
    return fields(invoke(component, columns))[0]


def _reductions() -> Iterable[tuple[str, Callable[[Columns], Tensor]]]:
    """Weights as reductions make them, one of each sort, so that laws of losses need no other component."""
    yield "token weights", lambda c: c["mask"].double() / max(c["counts"].tokens, 1)
    yield "row weights", lambda c: c["mask"].any(1).double() / max(c["counts"].rows, 1)


def _value_and_gradients(
    component: Component, columns: Columns, weights: Callable[[Columns], Tensor]
) -> tuple[Tensor, dict[str, Tensor]]:
    leaves = {n: columns[n].detach().clone().requires_grad_() for n in CURRENT if n in columns}
    loss = _loss(component, {**columns, **leaves})
    value = weighted_loss(loss, weights(columns).to(loss.dtype), columns["mask"])
    read = {read.name for read in reads(component)}
    wanted = {n: x for n, x in leaves.items() if n in read}
    gradients = torch.autograd.grad(value, list(wanted.values()))
    return value.detach(), dict(zip(wanted, gradients, strict=True))


def losses_are_shaped_and_0_off_the_mask(component: Component) -> None:
    """[B, T] or [B], finite, 0 off the mask; metrics are finite tensors that know how they are reduced."""
    columns = loss_columns()
    result = invoke(component, columns)
    loss = fields(result)[0]
    mask = columns["mask"]
    assert loss.shape in (mask.shape, mask.shape[:1]), f"shape {tuple(loss.shape)}"
    assert loss.isfinite().all(), "not finite"
    assert not loss[~mask if loss.dim() == 2 else ~mask.any(1)].any(), "not 0 off the mask"
    for name, metric in (result.metrics if isinstance(result, LossOutput) else {}).items():
        x, how = metric if isinstance(metric, tuple) else (metric, "mean")
        assert how in ("mean", "sum", "max", "min"), f"metric {name} is reduced by {how!r}"
        assert x.shape in (mask.shape, mask.shape[:1]), f"metric {name} has shape {tuple(x.shape)}"
        assert x.isfinite().all(), f"metric {name} is not finite"
        assert not x.requires_grad, f"metric {name} holds on to the graph"


def nothing_off_the_mask_reaches_a_loss(component: Component) -> None:
    """Garbage off the mask changes neither the value nor a gradient nor a metric, and gets no gradient itself."""
    columns = loss_columns(1)
    for _, weights in _reductions():
        value, gradients = _value_and_gradients(component, columns, weights)
        for garbage in GARBAGE:
            dirty = with_garbage(columns, columns["mask"], garbage)
            found, dirty_gradients = _value_and_gradients(component, dirty, weights)
            same(found, value, f"{garbage} off the mask")
            for name, gradient in dirty_gradients.items():
                same(gradient, gradients[name], f"gradient of {name} with {garbage} off the mask")
                assert not gradient[~columns["mask"]].any(), f"gradient of {name} off the mask"


def a_loss_with_everything_masked_is_0(component: Component) -> None:
    """No token, no loss: exactly 0, with gradients that are exactly 0."""
    columns = loss_columns(2)
    columns["mask"] = torch.zeros_like(columns["mask"])
    columns["counts"] = Counts.of(columns["mask"], columns["group"], 7)
    for what, weights in _reductions():
        value, gradients = _value_and_gradients(component, columns, weights)
        assert value == 0, what
        assert all(not g.any() and g.isfinite().all() for g in gradients.values()), what


def an_all_masked_row_changes_nothing(component: Component) -> None:
    """Beside a row without a trained token every other row's loss is what it is without it."""
    columns = loss_columns(3)
    kept = columns["mask"].any(1).nonzero().squeeze(1)
    assert len(kept) < len(columns["mask"])
    alone = of_rows(columns, kept)
    alone["counts"] = Counts.of(alone["mask"], alone["group"], 7)
    for what, weights in _reductions():
        value, gradients = _value_and_gradients(component, columns, weights)
        expected, expected_gradients = _value_and_gradients(component, alone, weights)
        same(value, expected, what)
        for name, gradient in gradients.items():
            same(gradient[kept], expected_gradients[name], f"{what}: gradient of {name}")


def splits_change_no_loss(component: Component) -> None:
    """Microbatches and ranks, cut anywhere, add up to the whole in value and gradient."""
    for dtype in (torch.float32, torch.float64):
        columns = loss_columns(4, dtype=dtype)
        for what, weights in _reductions():
            value, gradients = _value_and_gradients(component, columns, weights)
            for parts in _splits(len(columns["mask"])):
                pieces = [_value_and_gradients(component, of_rows(columns, part), weights) for part in parts]
                same(sum((v for v, _ in pieces), torch.zeros_like(value)), value, f"{what} in {len(parts)} parts")
                for name, whole in gradients.items():
                    laid = torch.zeros_like(whole)
                    for part, (_, piece) in zip(parts, pieces, strict=True):
                        laid[part] = piece[name]
                    same(laid, whole, f"{what} in {len(parts)} parts: gradient of {name}")


def losses_ignore_padding(component: Component) -> None:
    """Wider rows have the same loss."""
    columns = loss_columns(5)
    wide = widened(columns)
    for what, weights in _reductions():
        same(
            _value_and_gradients(component, wide, weights)[0],
            _value_and_gradients(component, columns, weights)[0],
            what,
        )


def losses_are_computed_in_float32(component: Component) -> None:
    """Half precision comes out as float32 and is as good as its inputs; float64 stays."""
    columns = loss_columns(6, dtype=torch.float64)
    assert _loss(component, columns).dtype == torch.float64, "float64 was lost"
    for dtype in (torch.bfloat16, torch.float16):
        cast = {n: x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x for n, x in columns.items()}
        loss = _loss(component, cast)
        assert loss.dtype == torch.float32, f"{dtype} in, {loss.dtype} out"
        widest = {n: x.float() if isinstance(x, Tensor) and x.is_floating_point() else x for n, x in cast.items()}
        same(loss, _loss(component, widest), f"{dtype} against the same numbers in float32")


def losses_stay_finite_at_extreme_ratios(component: Component) -> None:
    """Log ratios of 200 and 1e4, either way, have a finite value and a finite gradient in every type."""
    for distance in (200.0, 1e4):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            for sign in (1, -1):
                columns = loss_columns(7)
                mask = columns["mask"]
                columns["logprob"] = torch.where(mask, -distance if sign > 0 else -0.1, 0.0)
                for name in ("old_logprob", "ref_logprob", "rollout_logprob"):
                    columns[name] = torch.where(mask, -0.1 if sign > 0 else -distance, 0.0)
                cast = {
                    n: x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x for n, x in columns.items()
                }
                value, gradients = _value_and_gradients(component, cast, next(iter(_reductions()))[1])
                assert value.isfinite(), f"value at {sign * distance} in {dtype}"
                assert all(g.isfinite().all() for g in gradients.values()), f"gradient at {sign * distance} in {dtype}"


def on_policy_the_gradient_is_the_policy_gradient(component: Component) -> None:
    """With a ratio of 1 the gradient by the log-probability is minus the advantage."""
    columns = loss_columns(8)
    columns["logprob"] = columns["old_logprob"].clone()
    _, gradients = _value_and_gradients(component, columns, lambda c: c["mask"].double())
    same(gradients["logprob"], -columns["advantage"], "gradient at a ratio of 1")


def _splits(rows: int) -> Iterable[list[Tensor]]:
    yield [torch.tensor([row]) for row in range(rows)]
    yield [torch.arange(rows)[::2], torch.arange(rows)[1::2]]
    yield [torch.arange(3), torch.arange(3, rows)]
    yield [torch.arange(rows).flip(0)]


# -- reductions


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
    """A row's weight is the same in whatever microbatch or rank it stands, and counts of parts add up."""
    columns = loss_columns(1)
    whole = invoke(component, columns)
    for parts in _splits(len(columns["mask"])):
        pieces = [of_rows(columns, part) for part in parts]
        counted = [Counts.of(piece["mask"], piece["group"], 7) for piece in pieces]
        counts = sum(counted[1:], counted[0])
        assert counts == columns["counts"], "counts of parts do not add up"
        for part, piece in zip(parts, pieces, strict=True):
            same(invoke(component, {**piece, "counts": counts}), whole[part], f"{len(parts)} parts")


def padding_changes_no_weight(component: Component) -> None:
    """Wider rows have the same weights."""
    columns = loss_columns(2)
    weights, wide = invoke(component, columns), invoke(component, widened(columns))
    same(wide if wide.dim() == 1 else wide[:, : columns["mask"].shape[1]], weights, "wider rows")


def masked_rows_change_no_weight(component: Component) -> None:
    """Rows without a trained token are in no denominator."""
    columns = loss_columns(3)
    kept = columns["mask"].any(1).nonzero().squeeze(1)
    alone = of_rows(columns, kept)
    alone["counts"] = Counts.of(alone["mask"], alone["group"], 7)
    same(invoke(component, columns)[kept], invoke(component, alone), "without the all-masked row")


def nothing_to_train_on_weighs_nothing(component: Component) -> None:
    """With everything masked the weights are 0, not NaN."""
    columns = loss_columns(4)
    columns["mask"] = torch.zeros_like(columns["mask"])
    columns["counts"] = Counts.of(columns["mask"], columns["group"], 7)
    weights = invoke(component, columns)
    assert weights.isfinite().all(), "not finite"
    assert not weights.any(), "not 0"


# -- KL


def kl_is_0_between_equals(component: Component) -> None:
    """Two equal policies are 0 apart, exactly."""
    columns = loss_columns()
    columns["ref_logprob"] = columns["logprob"].clone()
    assert not invoke(component, columns).any()


def kl_stays_finite(component: Component) -> None:
    """Any distance has a finite value and a finite gradient, in float32 out of every type."""
    for distance in (100.0, 200.0, 1e4):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            for near, far in ((-distance, -0.5), (-0.5, -distance)):
                logprob = torch.full((1, 2), near, dtype=dtype, requires_grad=True)
                kl = invoke(component, {"logprob": logprob, "ref_logprob": torch.full((1, 2), far, dtype=dtype)})
                kl.sum().backward()
                assert kl.dtype == torch.float32, f"{dtype} in, {kl.dtype} out"
                assert kl.isfinite().all(), f"value at {near} against {far} in {dtype}"
                assert logprob.grad is not None, "no gradient"
                assert logprob.grad.isfinite().all(), f"gradient at {near} against {far} in {dtype}"


def kl_is_known_token_by_token(component: Component) -> None:
    """A token's estimate depends on that token alone; float64 stays."""
    columns = loss_columns(1, dtype=torch.float64)
    whole = invoke(component, columns)
    assert whole.dtype == torch.float64, "float64 was lost"
    assert whole.shape == columns["logprob"].shape, f"shape {tuple(whole.shape)}"
    piece = {n: columns[n][2:3, 1:4] for n in ("logprob", "ref_logprob")}
    same(invoke(component, piece), whole[2:3, 1:4], "a few tokens alone")


# -- filters


def _filter_columns() -> Columns:
    """Raw rows, NaN included: mixed, equal, unscored, single and half-scored groups, interleaved."""
    nan = float("nan")
    score = torch.tensor([1.0, 0.35, nan, 0.0, 0.35, nan, 0.5, nan, 0.2, 0.35, 1.0])
    group = torch.tensor([10, 20, 10, 10, 20, 30, 40, 50, 50, 20, 30])
    columns = {"score": score, "group": group, "session": torch.arange(11), "length": torch.full((11,), 3)}
    return {**columns, "scores": score[:, None], "stop": torch.zeros(11, dtype=torch.int64)}


def filters_return_rows_they_were_given(component: Component) -> None:
    """Indices into the input, whole numbers, and nothing that was handed in is changed."""
    columns = _filter_columns()
    before = _copy(columns)
    rows = invoke(component, columns)
    assert rows.dtype == torch.int64, f"indices are {rows.dtype}"
    assert rows.dim() == 1, f"indices have shape {tuple(rows.shape)}"
    assert ((rows >= 0) & (rows < len(columns["group"]))).all(), "indices outside the input"
    assert all(torch.equal(x.nan_to_num(), columns[n].nan_to_num()) for n, x in before.items()), "an input was changed"


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
    assert {int(order[row]) for row in invoke(component, of_rows(columns, order))} == expected


def filters_take_nothing_from_nothing(component: Component) -> None:
    """No row in, no row out."""
    assert not len(invoke(component, of_rows(_filter_columns(), torch.tensor([], dtype=torch.int64))))


_ANY: tuple[Law, ...] = (names_its_source, survives_copying)
LAWS: dict[str, tuple[Law, ...]] = {
    "advantage": (
        *_ANY,
        estimates_are_finite_and_shaped,
        estimates_follow_the_rows,
        estimates_ignore_padding,
        estimates_of_a_single_row_are_finite,
        equal_rewards_have_no_advantage,
        group_names_mean_nothing,
        other_groups_have_no_say,
        estimates_leave_their_input,
        estimates_keep_the_type,
    ),
    "loss": (
        *_ANY,
        losses_are_shaped_and_0_off_the_mask,
        nothing_off_the_mask_reaches_a_loss,
        a_loss_with_everything_masked_is_0,
        an_all_masked_row_changes_nothing,
        splits_change_no_loss,
        losses_ignore_padding,
        losses_are_computed_in_float32,
        losses_stay_finite_at_extreme_ratios,
        on_policy_the_gradient_is_the_policy_gradient,
    ),
    "reduction": (
        *_ANY,
        reduction_weights_are_shaped_and_0_off_the_mask,
        splits_change_no_weight,
        padding_changes_no_weight,
        masked_rows_change_no_weight,
        nothing_to_train_on_weighs_nothing,
    ),
    "kl": (*_ANY, kl_is_0_between_equals, kl_stays_finite, kl_is_known_token_by_token),
    "filter": (
        *_ANY,
        filters_return_rows_they_were_given,
        filters_keep_groups_whole,
        filters_follow_the_rows,
        filters_take_nothing_from_nothing,
    ),
}

_NEEDS: dict[Law, frozenset[str]] = {
    equal_rewards_have_no_advantage: frozenset({"group", "reward"}),
    group_names_mean_nothing: frozenset({"group"}),
    other_groups_have_no_say: frozenset({"group"}),
    # A loss that does not read the mask is handed 0 off it, and is selected by the mask afterwards.
    nothing_off_the_mask_reaches_a_loss: frozenset({"mask"}),
    on_policy_the_gradient_is_the_policy_gradient: frozenset({"logprob", "old_logprob", "advantage"}),
}


def applies(law: Law, component: Component) -> bool:
    """Tell whether a law speaks of this component: whether it reads the columns that the law is about."""
    return _NEEDS.get(law, frozenset()) <= {read.name for read in reads(component)}
