"""The metrics of a run: a row per step, and a plot of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore.errors import UnknownNameError, unknown
from rlcore.metrics import full_name


class History(list[dict[str, float]]):
    """The metrics of each step, oldest first; each row has `step`."""

    def add(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append the metrics of a step."""
        self.append({"step": float(step), **metrics})

    def column(self, name: str) -> list[float]:
        """Return one metric over the steps that have it. Raises UnknownNameError with the nearest name."""
        if not self:
            raise UnknownNameError(f"metric {name!r}: no step is done yet, so that nothing has been measured")
        values = [row[name] for row in self if name in row]
        if not values:
            raise unknown("metric", name, {key for row in self for key in row})
        return values

    def total(self, ending: str) -> int:
        """Return the sum over all steps of the counts whose name ends so, whichever node they are of."""
        return round(sum(value for row in self for name, value in row.items() if name.endswith(f"/{ending}")))

    def plot(self, *names: str) -> Any:
        """Return a matplotlib figure of some metrics (score, response length and entropy if none is named)."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("a plot needs matplotlib: pip install 'rlcore[notebooks]'") from error
        last = self[-1] if self else {}
        chosen = names or [full for n in ("score", "response/length", "entropy") if (full := full_name(last, n))]
        figure, axes = plt.subplots(1, max(len(chosen), 1), figsize=(4 * max(len(chosen), 1), 3), squeeze=False)
        for axis, name in zip(axes[0], chosen, strict=True):
            steps = [row["step"] for row in self if name in row]
            axis.plot(steps, self.column(name))
            axis.set_title(name)
            axis.set_xlabel("step")
        figure.tight_layout()
        return figure
