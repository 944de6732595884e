"""The law that a gradient is that of the value: it is compared with finite differences.

A law returns nothing, and raises AssertionError where the two differ. It looks at the gradient by every column of
`current_columns` that the component reads; what it detaches on purpose is held constant in the differences too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from rlcore.component import invoke, reads
from rlcore.testing.laws.inputs import Columns, Component, current_columns, fields, loss_columns

STEP, ALLOWED = 1e-6, 2e-5


class _Stops(TorchFunctionMode):
    """A torch mode that records the results of `detach`, or, given such a record, returns them in the same order.

    A detached value is a constant to the gradient, so a finite difference must keep it constant too.
    """

    def __init__(self, kept: list[Tensor] | None = None) -> None:
        super().__init__()
        self.kept: list[Tensor] = [] if kept is None else kept
        self._next: Iterator[Tensor] | None = None if kept is None else iter(kept)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call every function as it is, except `detach`."""
        result = func(*args, **(kwargs or {}))
        if func is not Tensor.detach:
            return result
        if self._next is None:
            self.kept.append(result.clone())
            return result
        return next(self._next, result)


def gradients_are_those_of_the_value(component: Component) -> None:
    """In float64 the gradient agrees with central differences of the loss; what `detach` stops is held constant."""
    _agree(component, loss_columns(20, rows=4, width=4, dtype=torch.float64))


def kl_gradients_are_those_of_the_value(component: Component) -> None:
    """In float64 the gradient agrees with central differences of the KL; what `detach` stops is held constant."""
    _agree(component, loss_columns(21, rows=3, width=4, dtype=torch.float64))


def _agree(component: Component, columns: Columns) -> None:
    weights = torch.linspace(0.5, 1.5, columns["mask"].numel(), dtype=torch.float64).view_as(columns["mask"])

    def value(inputs: Columns) -> Tensor:
        result = fields(invoke(component, inputs))[0]
        return (result * (weights if result.dim() == 2 else weights[:, 0])).sum()

    named = {read.name for read in reads(component)}
    for name in (name for name in current_columns(columns) if name in named):
        leaf = columns[name].clone().requires_grad_()
        stops = _Stops()
        with stops:
            total = value({**columns, name: leaf})
        (gradient,) = torch.autograd.grad(total, [leaf])
        _compare(name, gradient, columns, value, stops.kept)


def _compare(
    name: str, gradient: Tensor, columns: Columns, value: Callable[[Columns], Tensor], kept: list[Tensor]
) -> None:
    size = max(float(gradient.abs().max()), 1e-3)
    for place in columns["mask"].nonzero().tolist():
        ends = []
        for sign in (1.0, -1.0):
            moved = columns[name].clone()
            moved[tuple(place)] += sign * STEP
            with _Stops(kept):
                ends.append(float(value({**columns, name: moved})))
        slope = (ends[0] - ends[1]) / (2 * STEP)
        slope_of_gradient = float(gradient[tuple(place)])
        assert abs(slope - slope_of_gradient) <= ALLOWED * size, (
            f"gradient by {name} is {slope_of_gradient:.6g}, the value's slope {slope:.6g}"
        )
