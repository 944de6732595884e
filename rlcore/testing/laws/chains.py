"""A chain of estimators as one: what a run makes of `advantage=[gae, whiten]`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from rlcore.component import Component, invoke, outputs, reads
from rlcore.math import length_mask, masked


def chain_estimators(parts: tuple[Component, ...]) -> Component:
    """Return one function that reads what the chain reads and returns the advantage of its end.

    A single estimator is returned as it is.
    """
    if len(parts) == 1:
        return parts[0]
    made: set[str] = set()
    wanted: dict[str, bool] = {}
    for part in parts:
        for read in reads(part):
            if read.name not in made:
                wanted[read.name] = wanted.get(read.name, True) and read.optional
        made |= set(outputs(part) or ()) | {"advantage"}
    names = {**wanted, "length": False, "sampled": False}
    if len(parts) > 1 and any(read.name == "advantage" for part in parts[1:] for read in reads(part)):
        names.setdefault("mask", False)

    def chain(*values: Any) -> Tensor:
        columns = dict(zip(names, values, strict=True))
        for part in parts:
            columns |= _spread(invoke(part, columns), columns)
        result: Tensor = columns["advantage"]
        return result

    # Required parameters first, as Python wants them.
    order = sorted(names, key=lambda name: names[name])
    names = {name: names[name] for name in order}
    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None if optional else inspect.Parameter.empty
        )
        for name, optional in names.items()
    ]
    chain.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    chain.__annotations__ = {"return": Tensor}
    return chain


def _spread(result: Any, columns: Mapping[str, Any]) -> dict[str, Tensor]:
    fields = result._asdict() if hasattr(result, "_asdict") else {"advantage": result}
    real = length_mask(columns["length"], columns["sampled"].shape[1])
    return {
        name: masked(x[:, None].expand_as(real) if x.dim() == 1 else x, real)
        for name, x in fields.items()
        if isinstance(x, Tensor)
    }
