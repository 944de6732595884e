"""Metrics that can be merged: each carries a sum and a weight, so that no average of averages is ever taken.

Microbatches and steps merge exactly: the mean over two of them is the mean over all their entries.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch

from rlcore.errors import ComponentError

Kind = Literal["mean", "sum", "max", "min"]
KINDS: tuple[str, ...] = get_args(Kind)

MEASURED = ("seconds/", "speed/", "memory/")
"""Prefixes of metrics of time and memory: the only ones that may differ between two equal runs."""


def is_measured(name: str) -> bool:
    """Return whether a metric measures time or memory, so that two equal runs may differ in it."""
    # Those of a policy after the first begin with its name.
    return any(f"/{prefix}" in f"/{name}" for prefix in MEASURED)


@dataclass(frozen=True)
class Metric:
    """One metric: `sum` over `weight` for a mean, `sum` for a sum, and the extreme itself for max and min.

    Weight 0 means that nothing was added, whatever `sum` says.
    """

    sum: float
    weight: float
    kind: Kind = "mean"

    @property
    def value(self) -> float:
        """Return the number to show; NaN if nothing was added."""
        if self.weight == 0:
            return math.nan
        return self.sum / self.weight if self.kind == "mean" else self.sum

    def merge(self, other: Metric) -> Metric:
        """Return the metric over the entries of both.

        Raises:
            ComponentError: if one is, say, a mean and the other a maximum.
        """
        if self.kind != other.kind:
            raise ComponentError(f"a metric of kind {self.kind!r} cannot be merged with one of kind {other.kind!r}")
        if not self.weight or not other.weight:
            return self if self.weight else other
        if self.kind in ("mean", "sum"):
            return Metric(self.sum + other.sum, self.weight + other.weight, self.kind)
        extreme = max if self.kind == "max" else min
        return Metric(extreme(self.sum, other.sum), self.weight + other.weight, self.kind)


class Metrics:
    """Metrics by name, of a microbatch, an update or a step; adding to a name merges."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def __getitem__(self, name: str) -> Metric:
        return self._metrics[name]

    def __contains__(self, name: object) -> bool:
        return name in self._metrics

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)

    def __len__(self) -> int:
        return len(self._metrics)

    def __repr__(self) -> str:
        return f"Metrics({', '.join(f'{name}={metric.value:.6g}' for name, metric in self._metrics.items())})"

    def add(self, name: str, values: Any, mask: Any = None, kind: Kind = "mean") -> None:
        """Add the entries of a tensor to a metric, without those that are NaN or where `mask` is off.

        Args:
            name: the metric; slashes group it (`update/kl`).
            values: a tensor, array or number of any shape and dtype; it is detached.
            mask: of a shape that broadcasts to that of `values`; a float mask weighs the entries of a mean or a sum.
            kind: how entries become one number.

        Raises:
            ComponentError: for an unknown kind, or if `name` was added with another kind before.
        """
        entries = _float64(values)
        weights = torch.ones_like(entries) if mask is None else _float64(mask).to(entries.device).expand_as(entries)
        votes = (weights != 0) & ~entries.isnan()
        entries, weights = entries[votes], weights[votes]
        if kind in ("mean", "sum"):
            self._put(name, Metric(float((entries * weights).sum()), float(weights.sum()), kind))
        elif kind in ("max", "min"):
            extreme = float(entries.max() if kind == "max" else entries.min()) if len(entries) else 0.0
            self._put(name, Metric(extreme, float(len(entries)), kind))
        else:
            raise ComponentError(f"metric {name!r}: kind {kind!r} is none of {', '.join(KINDS)}")

    def report(self, metrics: Mapping[str, Any], mask: torch.Tensor) -> None:
        """Add the metrics that a component returned; `mask` [B, T] chooses the entries that are counted.

        Of a metric [B, T] these are the tokens on the mask, of one [B] the rows with such tokens; a number counts once.

        Each is a tensor or number, or a pair of that and its kind; without one it is a mean.
        """
        for name, metric in metrics.items():
            values, kind = metric if isinstance(metric, tuple) else (metric, "mean")
            dims = getattr(values, "ndim", 0)
            self.add(name, values, mask if dims == 2 else mask.any(1) if dims == 1 else None, kind)

    def put(self, name: str, value: float, weight: float = 1.0, kind: Kind = "mean") -> None:
        """Add one number with a weight; NaN, or a weight of 0, adds nothing."""
        value = float(value)
        if math.isnan(value) or weight == 0:
            self._put(name, Metric(0.0, 0.0, kind))
        else:
            self._put(name, Metric(value * weight if kind == "mean" else value, float(weight), kind))

    def merge(self, other: Metrics, prefix: str = "") -> None:
        """Add all metrics of another object, each under its name with `prefix` before it."""
        for name in other:
            self._put(prefix + name, other[name])

    def values(self) -> dict[str, float]:
        """Return the number of each metric, in the order in which they were first added, without those that are NaN."""
        numbers = {name: metric.value for name, metric in self._metrics.items()}
        return {name: number for name, number in numbers.items() if not math.isnan(number)}

    def _put(self, name: str, metric: Metric) -> None:
        known = self._metrics.get(name)
        if known is not None and known.kind != metric.kind:
            raise ComponentError(f"metric {name!r} is a {known.kind} and cannot become a {metric.kind}")
        self._metrics[name] = metric if known is None else known.merge(metric)


def _float64(values: Any) -> torch.Tensor:
    """Return the values as a detached float64 tensor, so that sums of many small entries stay exact."""
    tensor = torch.as_tensor(values).detach()
    # Apple's devices have no float64.
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).to(torch.float64)


def full_name(metrics: Collection[str], name: str) -> str | None:
    """Return a metric's name as it stands among the metrics: `name` itself, or the first NODE/name; None for none."""
    return name if name in metrics else next((each for each in metrics if each.endswith(f"/{name}")), None)
