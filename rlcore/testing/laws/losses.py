"""Laws of losses: 0 off the mask, finite, independent of padding and of the split into microbatches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from rlcore.component import invoke, reads
from rlcore.math import Counts, weighted_loss
from rlcore.protocols import LossOutput
from rlcore.testing.laws.inputs import (
    GARBAGE,
    Columns,
    Component,
    assert_close,
    current_columns,
    fields,
    in_dtype,
    loss_columns,
    row_splits,
    take_rows,
    widened,
    with_garbage,
)


def _loss(component: Component, columns: Columns) -> Tensor:
    return fields(invoke(component, columns))[0]


def _reductions() -> Iterable[tuple[str, Callable[[Columns], Tensor]]]:
    """Yield weights as reductions make them, one of each sort, so that laws of losses need no other component."""
    yield "token weights", lambda c: c["mask"].double() / max(c["counts"].tokens, 1)
    yield "row weights", lambda c: c["mask"].any(1).double() / max(c["counts"].rows, 1)


def _weighted(loss: Tensor, columns: Columns, weights: Callable[[Columns], Tensor]) -> Tensor:
    shares = weights(columns)
    if loss.dim() == 1 and shares.dim() == 2:
        # A loss of one value a row takes row weights only.
        shares = dict(_reductions())["row weights"](columns)
    return weighted_loss(loss, shares.to(loss.dtype), columns["mask"])


def _value_and_gradients(
    component: Component, columns: Columns, weights: Callable[[Columns], Tensor]
) -> tuple[Tensor, dict[str, Tensor]]:
    leaves = {n: columns[n].detach().clone().requires_grad_() for n in current_columns(columns)}
    loss = _loss(component, {**columns, **leaves})
    value = _weighted(loss, columns, weights)
    read = {read.name for read in reads(component)}
    wanted = {n: x for n, x in leaves.items() if n in read}
    gradients = torch.autograd.grad(value, list(wanted.values()))
    return value.detach(), dict(zip(wanted, gradients, strict=True))


def losses_are_shaped_and_0_off_the_mask(component: Component) -> None:
    """[B, T] or [B], finite, 0 off the mask; metrics are tensors, NaN where a row has no vote, that know their kind."""
    columns = loss_columns()
    columns |= {n: columns[n].requires_grad_() for n in current_columns(columns)}
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
        assert not x.isinf().any(), f"metric {name} is infinite"
        assert not x.requires_grad, f"metric {name} holds on to the graph"


def nothing_off_the_mask_reaches_a_loss(component: Component) -> None:
    """Garbage off the mask changes neither the value nor a gradient nor a metric, and gets no gradient itself."""
    columns = loss_columns(1)
    for _, weights in _reductions():
        value, gradients = _value_and_gradients(component, columns, weights)
        for garbage in GARBAGE:
            dirty = with_garbage(columns, columns["mask"], garbage)
            dirty_value, dirty_gradients = _value_and_gradients(component, dirty, weights)
            assert_close(dirty_value, value, f"{garbage} off the mask")
            for name, gradient in dirty_gradients.items():
                assert_close(gradient, gradients[name], f"gradient of {name} with {garbage} off the mask")
                assert not gradient[~columns["mask"]].any(), f"gradient of {name} off the mask"


def a_loss_with_everything_masked_is_0(component: Component) -> None:
    """No token, no loss: exactly 0, with gradients that are exactly 0."""
    columns = loss_columns(2)
    columns["mask"] = torch.zeros_like(columns["mask"])
    columns["counts"] = Counts.of(columns["mask"], columns["group"], 7)
    for label, weights in _reductions():
        value, gradients = _value_and_gradients(component, columns, weights)
        assert value == 0, label
        assert all(not g.any() and g.isfinite().all() for g in gradients.values()), label


def an_all_masked_row_changes_nothing(component: Component) -> None:
    """Beside a row without a trained token every other row's loss is what it is without it."""
    columns = loss_columns(3)
    kept = columns["mask"].any(1).nonzero().squeeze(1)
    assert len(kept) < len(columns["mask"])
    alone = take_rows(columns, kept)
    alone["counts"] = Counts.of(alone["mask"], alone["group"], 7)
    for label, weights in _reductions():
        value, gradients = _value_and_gradients(component, columns, weights)
        expected, expected_gradients = _value_and_gradients(component, alone, weights)
        assert_close(value, expected, label)
        for name, gradient in gradients.items():
            assert_close(gradient[kept], expected_gradients[name], f"{label}: gradient of {name}")


def _together(component: Component, columns: Columns) -> Tensor | None:
    """Return what keeps rows in one microbatch [B]: the pair of each, for a loss that reads pairs."""
    return columns["pair"] if any(read.name == "pair" for read in reads(component)) else None


def splits_change_no_loss(component: Component) -> None:
    """Microbatches and ranks, cut anywhere, add up to the whole in value and gradient."""
    for dtype in (torch.float32, torch.float64):
        columns = loss_columns(4, dtype=dtype)
        for label, weights in _reductions():
            value, gradients = _value_and_gradients(component, columns, weights)
            # Terms of either sign may nearly cancel: rounding is that of the terms.
            loss = _loss(component, columns).abs()
            size = float(_weighted(loss, columns, weights))
            for parts in row_splits(len(columns["mask"]), _together(component, columns)):
                pieces = [_value_and_gradients(component, take_rows(columns, part), weights) for part in parts]
                total = sum((v for v, _ in pieces), torch.zeros_like(value))
                assert_close(total, value, f"{label} in {len(parts)} parts", scale=size)
                for name, expected in gradients.items():
                    laid = torch.zeros_like(expected)
                    for part, (_, piece) in zip(parts, pieces, strict=True):
                        laid[part] = piece[name]
                    assert_close(laid, expected, f"{label} in {len(parts)} parts: gradient of {name}")


def losses_ignore_padding(component: Component) -> None:
    """Wider rows have the same loss."""
    columns = loss_columns(5)
    wide = widened(columns)
    for label, weights in _reductions():
        assert_close(
            _value_and_gradients(component, wide, weights)[0],
            _value_and_gradients(component, columns, weights)[0],
            label,
        )


def losses_are_computed_in_float32(component: Component) -> None:
    """Half precision comes out as float32 and is as good as its inputs; float64 stays."""
    columns = loss_columns(6, dtype=torch.float64)
    assert _loss(component, columns).dtype == torch.float64, "float64 was lost"
    for dtype in (torch.bfloat16, torch.float16):
        cast = in_dtype(columns, dtype)
        loss = _loss(component, cast)
        assert loss.dtype == torch.float32, f"{dtype} in, {loss.dtype} out; compute with rlcore.math.single(x)"
        assert_close(
            loss, _loss(component, in_dtype(cast, torch.float32)), f"{dtype} against the same numbers in float32"
        )


def losses_stay_finite_at_extreme_ratios(component: Component) -> None:
    """Log ratios of 200 and 1e4, either way, also from probability 1: value and gradient are finite in every type."""
    for distance, near in ((200.0, -0.1), (1e4, -0.1), (200.0, 0.0)):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            for sign in (1, -1):
                columns = loss_columns(7)
                mask = columns["mask"]
                columns["logprob"] = torch.where(mask, -distance if sign > 0 else near, 0.0)
                for name in ("old_logprob", "ref_logprob", "rollout_logprob"):
                    columns[name] = torch.where(mask, near if sign > 0 else -distance, 0.0)
                cast = in_dtype(columns, dtype)
                value, gradients = _value_and_gradients(component, cast, next(iter(_reductions()))[1])
                assert value.isfinite(), f"value at {sign * distance} in {dtype}"
                assert all(g.isfinite().all() for g in gradients.values()), f"gradient at {sign * distance} in {dtype}"


def on_policy_the_gradient_is_the_policy_gradient(component: Component) -> None:
    """Where trainer and sampler agree the gradient by the log-probability is minus the advantage."""
    columns = loss_columns(8)
    columns["logprob"] = columns["old_logprob"].clone()
    columns["rollout_logprob"] = columns["old_logprob"] - columns["kept_logmass"]
    _, gradients = _value_and_gradients(component, columns, lambda c: c["mask"].double())
    assert_close(gradients["logprob"], -columns["advantage"], "gradient at a ratio of 1")
