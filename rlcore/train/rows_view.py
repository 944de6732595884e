"""The columns of some rows as losses, reductions and selects are given them: padded, and 0 off the mask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from rlcore.columns import TOKEN, ColumnTable
from rlcore.errors import unknown


class RowsView(Mapping[str, Any]):
    """A mapping from column name to column, on one device; token columns are padded when they are first read.

    Args:
        stored: columns as a batch keeps them, `[N]` for a token column. Off the mask they are read as 0, except
            structural ones (tokens, `sampled`, ...).
        live: columns computed in this pass, with their gradient: `[n]`, a value per token on the mask. They take
            precedence over stored columns of the same name.
        scalars: columns without dimensions.
        place: `[N]`, the place of each token in the padded grid of `shape` = (rows, width).
    """

    def __init__(
        self,
        stored: Mapping[str, Any],
        table: ColumnTable,
        mask: Tensor,
        *,
        place: Tensor,
        shape: tuple[int, int],
        live: Mapping[str, Tensor],
        scalars: Mapping[str, Any],
        device: torch.device,
    ) -> None:
        self._stored = stored
        self._table = table
        self._mask = mask
        self._live = live
        self._scalars = scalars
        self._device = device
        self._shape = shape
        self._place = place.to(device)
        self._trained = self._place[mask.to(device)]
        self._padded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._padded:
            self._padded[name] = self._make(name)
        return self._padded[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the column, or `default` where there is none: what an optional read gets."""
        if name not in self:
            return default
        return self[name]

    def __contains__(self, name: object) -> bool:
        return name == "mask" or name in self._live or name in self._scalars or name in self._stored

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(("mask", *self._live, *self._scalars, *self._stored)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _make(self, name: str) -> Any:
        if name == "mask":
            return self._lay(self._mask.to(self._device), self._place)
        if name in self._live:
            return self._lay(self._live[name], self._trained)
        if name in self._scalars:
            return self._scalars[name]
        if name not in self._stored:
            raise unknown("column of this update", name, list(self))
        column, value = self._table[name], self._stored[name]
        if column.dims == TOKEN:
            flat: Tensor = value
            if not column.structural or column.dtype == "float":
                # `where`, never a product: what lies off the mask may be NaN.
                flat = torch.where(self._mask, flat, torch.zeros((), dtype=flat.dtype))
            return self._lay(flat.to(self._device), self._place)
        return value.to(self._device) if isinstance(value, Tensor) else value

    def _lay(self, flat: Tensor, place: Tensor) -> Tensor:
        rows, width = self._shape
        return flat.new_zeros(rows * width).index_copy(0, place, flat).view(rows, width)
