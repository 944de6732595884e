"""Optimizers by name: each a function of parameters and a learning rate, with options, that returns torch's own.

Vectors and scalars (norms, biases) have no weight decay in any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import nn

Decay = Annotated[float, Field(ge=0, lt=1)]
NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]


def adamw(
    parameters: Sequence[nn.Parameter],
    learning_rate: float,
    *,
    betas: tuple[Decay, Decay] = (0.9, 0.999),
    epsilon: Positive = 1e-8,
    weight_decay: NotNegative = 0.0,
) -> torch.optim.Optimizer:
    """Return AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101) over parameters.

    `betas` are the decays of the two moments; `weight_decay` is per update and unit of learning rate. The fused kernel
    is used wherever torch has one: on CPUs it measured 3.6 to 6.6 times cheaper than the others.
    """
    groups = _groups(parameters, weight_decay)
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, eps=epsilon, fused=_has_fused_kernel(parameters))


def sgd(
    parameters: Sequence[nn.Parameter],
    learning_rate: float,
    *,
    momentum: Decay = 0.0,
    weight_decay: NotNegative = 0.0,
) -> torch.optim.Optimizer:
    """Return stochastic gradient descent over parameters, with heavy-ball momentum (Polyak 1964) if there is any.

    Source: Robbins and Monro 1951; torch's form, in which the momentum adds up gradients, not updates.
    """
    groups = _groups(parameters, weight_decay)
    return torch.optim.SGD(groups, lr=learning_rate, momentum=momentum, fused=_has_fused_kernel(parameters))


def _groups(parameters: Sequence[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Return torch's parameter groups: matrices, which decay, and the rest, which does not; none that is empty."""
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _has_fused_kernel(parameters: Sequence[nn.Parameter]) -> bool:
    return all(p.device.type in ("cpu", "cuda", "mps") and p.is_floating_point() for p in parameters)
