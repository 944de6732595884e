"""Steps of a torch optimizer: clipped gradients, a rate by schedule, and no step where a gradient is not finite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rlcore.component import name_of
from rlcore.errors import ComponentError


@dataclass(frozen=True)
class StepReport:
    """One optimizer update: gradient norm before clipping, learning rate, and whether it was finite and so applied."""

    gradient_norm: float
    learning_rate: float
    finite: bool


class Optimizer:
    """Steps over the trainable parameters of some modules.

    `factory(parameters, learning_rate)` returns torch's optimizer; `schedule(update, total)` returns the factor of the
    learning rate at each of `total_steps` optimizer updates. Raises ComponentError for a factory that returns anything
    other than a `torch.optim.Optimizer`.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        factory: Callable[..., torch.optim.Optimizer],
        schedule: Callable[..., float],
        learning_rate: float,
        max_grad_norm: float | None,
        total_steps: int,
    ) -> None:
        self.parameters = [p for p in parameters if p.requires_grad]
        self._torch = factory(self.parameters, learning_rate)
        if not isinstance(self._torch, torch.optim.Optimizer):
            raise ComponentError(
                f"optimizer {name_of(factory)} returned {type(self._torch).__name__}, which is no torch.optim.Optimizer"
            )
        self._learning_rate = learning_rate
        self._max_grad_norm = max_grad_norm
        self._schedule, self._total_steps = schedule, total_steps
        self.updates = 0

    @property
    def learning_rate(self) -> float:
        """Return the rate of the next update."""
        return self._learning_rate * self._schedule(self.updates + 1, self._total_steps)

    def zero_grad(self) -> None:
        """Clear all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self, loss: Tensor) -> StepReport:
        """Update the parameters by their gradients, then clear the gradients.

        If `loss` or any gradient is not finite nothing is applied: weights, moments and schedule stay as they were.
        Clipping scales all gradients by `max_grad_norm / norm` where the norm is larger.
        """
        rate = self.learning_rate
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = gradient_norm(gradients)
        finite = bool(torch.isfinite(norm) & torch.isfinite(loss.detach()))
        if finite:
            if self._max_grad_norm is not None and float(norm) > self._max_grad_norm:
                torch._foreach_mul_(gradients, self._max_grad_norm / float(norm))
            for group in self._torch.param_groups:
                group["lr"] = rate
            self._torch.step()
            self.updates += 1
        self.zero_grad()
        return StepReport(float(norm), rate, finite)

    def state_dict(self) -> dict[str, Any]:
        """Return moments and the number of updates; the tensors are the live ones."""
        return {"torch": self._torch.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave; the schedule goes on where it was."""
        self._torch.load_state_dict(state["torch"])
        self.updates = int(state["updates"])


def gradient_norm(gradients: list[Tensor]) -> Tensor:
    """Return the 2-norm of all gradients together, a scalar; 0 of none. NaN or infinite if any entry is."""
    if not gradients:
        return torch.zeros(())
    norms = torch.stack([torch.linalg.vector_norm(gradient).double() for gradient in gradients])
    return norms.square().sum().sqrt()
