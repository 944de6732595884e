"""Laws of KL estimators: 0 between equal policies, finite for any two, and computed token by token."""

from __future__ import annotations

import torch

from rlcore.component import invoke
from rlcore.testing.laws.inputs import (
    Component,
    assert_close,
    loss_columns,
)


def kl_is_0_between_equals(component: Component) -> None:
    """Two equal policies are 0 apart, exactly."""
    columns = loss_columns()
    columns["ref_logprob"] = columns["logprob"].clone()
    columns["full_kl"] = torch.zeros_like(columns["logprob"])
    assert not invoke(component, columns).any()


def kl_stays_finite(component: Component) -> None:
    """Any distance has a finite value and a finite gradient, in float32 out of every type."""
    for distance in (100.0, 200.0, 1e4):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            for near, far in ((-distance, -0.5), (-0.5, -distance)):
                logprob = torch.full((1, 2), near, dtype=dtype, requires_grad=True)
                full_kl = torch.full((1, 2), distance, dtype=dtype, requires_grad=True)
                others = {n: torch.full((1, 2), far, dtype=dtype) for n in ("ref_logprob", "old_logprob")}
                kl = invoke(component, {"logprob": logprob, "full_kl": full_kl, **others})
                kl.sum().backward()
                assert kl.dtype == torch.float32, f"{dtype} in, {kl.dtype} out; compute with rlcore.math.single(x)"
                assert kl.isfinite().all(), f"value at {near} against {far} in {dtype}"
                gradients = [x.grad for x in (logprob, full_kl) if x.grad is not None]
                assert gradients, "no gradient"
                assert all(g.isfinite().all() for g in gradients), f"gradient at {near} against {far} in {dtype}"


def kl_is_known_token_by_token(component: Component) -> None:
    """A token's estimate depends on that token alone; float64 stays."""
    columns = loss_columns(1, dtype=torch.float64)
    estimate = invoke(component, columns)
    assert estimate.dtype == torch.float64, "float64 was lost"
    assert estimate.shape == columns["logprob"].shape, f"shape {tuple(estimate.shape)}"
    piece = {n: columns[n][2:3, 1:4] for n in ("logprob", "ref_logprob", "old_logprob", "full_kl", "mask")}
    assert_close(invoke(component, piece), estimate[2:3, 1:4], "a few tokens alone")
