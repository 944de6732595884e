"""Laws of corrections and selects: masks only narrow, weights are finite, and neither depends on padding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlcore.component import invoke, reads
from rlcore.testing.laws.inputs import (
    GARBAGE,
    Columns,
    Component,
    assert_close,
    correction_columns,
    in_dtype,
    take_rows,
    widened,
    with_garbage,
)


def _written_columns(component: Component, columns: Columns) -> dict[str, Any]:
    """Return what it writes, without its metrics."""
    return {name: x for name, x in invoke(component, columns)._asdict().items() if name != "metrics"}


def _metrics(component: Component, columns: Columns) -> dict[str, Tensor]:
    metrics = getattr(invoke(component, columns), "metrics", {})
    return {name: x[0] if isinstance(x, tuple) else x for name, x in metrics.items()}


def _agree(written: dict[str, Any], expected: dict[str, Any], label: str, keep: Any = slice(None)) -> None:
    assert written.keys() == expected.keys(), f"{label}: other columns"
    for name, x in written.items():
        assert_close(_numbers(x), _numbers(expected[name][keep]), f"{label}: {name}")


def _numbers(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.float()


def masks_and_weights_are_shaped(component: Component) -> None:
    """[B, T]; masks are bool and only narrow, weights are finite, at least 0, 0 off the mask and without gradient."""
    columns = correction_columns(0)
    columns["logprob"].requires_grad_()
    mask = columns["mask"]
    for name, x in _written_columns(component, columns).items():
        assert x.shape == mask.shape, f"{name} has shape {tuple(x.shape)}"
        assert not x.requires_grad, f"{name} holds on to the graph"
        if name in ("mask", "selected"):
            assert x.dtype == torch.bool, f"{name} is {x.dtype}"
            assert not (x & ~mask).any(), f"{name} turns tokens on"
        else:
            assert x.isfinite().all(), f"{name} is not finite"
            assert name != "weight" or ((x >= 0).all() and not x[~mask].any()), "weights below 0 or off the mask"
    for name, x in _metrics(component, columns).items():
        assert x.shape in (mask.shape, mask.shape[:1], ()), f"metric {name} has shape {tuple(x.shape)}"
        assert x.isfinite().all(), f"metric {name} is not finite"


def masks_and_weights_follow_the_rows(component: Component) -> None:
    """Another order of the rows gives the same in that order."""
    columns = correction_columns(1)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    _agree(
        _written_columns(component, take_rows(columns, order)),
        _written_columns(component, columns),
        "another order",
        order,
    )


def masks_and_weights_ignore_what_is_off_the_mask(component: Component) -> None:
    """Padding, and whatever stands off the mask, changes nothing; an all-masked row is as if it were not there."""
    columns = correction_columns(2)
    expected = _written_columns(component, columns)
    if any(read.name == "mask" for read in reads(component)):
        for garbage in GARBAGE:
            dirty = with_garbage(columns, columns["mask"], garbage)
            _agree(_written_columns(component, dirty), expected, f"{garbage} off the mask")
            for name, x in _metrics(component, dirty).items():
                assert x.isfinite().all(), f"metric {name} with {garbage} off the mask"
    wide = _written_columns(component, widened(columns))
    _agree({name: x[:, :9] for name, x in wide.items()}, expected, "wider rows")
    kept = columns["mask"].any(1).nonzero().squeeze(1)
    assert len(kept) < 12
    _agree(_written_columns(component, take_rows(columns, kept)), expected, "without the all-masked row", kept)


def masks_and_weights_of_nothing_are_nothing(component: Component) -> None:
    """With everything masked there is no error, no NaN, and nothing is on."""
    columns = correction_columns(3)
    columns["mask"] = torch.zeros_like(columns["mask"])
    for name, x in _written_columns(component, columns).items():
        assert x.isfinite().all() if x.is_floating_point() else not x.any(), name
    assert all(x.isfinite().all() for x in _metrics(component, columns).values()), "a metric is not finite"


def masks_and_weights_stay_finite(component: Component) -> None:
    """Log ratios of 200 and 1e4, either way, in every type; half precision comes out as float32."""
    for distance in (200.0, 1e4):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            for near, far in ((-0.1, -distance), (-distance, -0.1)):
                columns = correction_columns(4)
                mask = columns["mask"]
                for name in ("old_logprob", "logprob"):
                    columns[name] = torch.where(mask, near, 0.0)
                columns["rollout_logprob"] = torch.where(mask, far, 0.0)
                cast = in_dtype(columns, dtype)
                for name, x in _written_columns(component, cast).items():
                    assert x.dtype in (torch.bool, torch.float32), f"{dtype} in, {name} is {x.dtype}"
                    assert x.isfinite().all(), f"{name} at {near} against {far} in {dtype}"
                assert all(x.isfinite().all() for x in _metrics(component, cast).values()), "a metric is not finite"


def without_a_mismatch_nothing_is_corrected(component: Component) -> None:
    """Where the sampler said what the trainer says, masks stay and weights are what they were."""
    columns = correction_columns(6)
    columns["kept_logmass"] = torch.where(columns["mask"], -0.3, 0.0)
    columns["rollout_logprob"] = columns["old_logprob"] - columns["kept_logmass"]
    columns["logprob"] = columns["old_logprob"].clone()
    for name, x in _written_columns(component, columns).items():
        assert_close(_numbers(x), _numbers(columns[name]), name)
