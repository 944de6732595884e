"""Batch: rows of named columns, stored without padding. `batch[name]` pads a token column for whoever reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rlcore.columns import COLUMNS, COMPONENTS, ROW, TOKEN, ColumnTable
from rlcore.errors import GraphError, counted, unknown

_DTYPES = {
    "float": (torch.float32, torch.float64, torch.float16, torch.bfloat16),
    "int": (torch.int64,),
    "bool": (torch.bool,),
}
_CONVERTED = {
    "float": (torch.int64, torch.int32, torch.bool),
    "int": (torch.int32, torch.int16, torch.int8, torch.uint8),
    "bool": (torch.int64, torch.int32, torch.uint8),
}
"""Types of values that are converted to the first type of a column's dtype; for "bool" where they are 0 or 1."""


def first_row_by_id(ids: Tensor) -> dict[int, int]:
    """Return the first row of each id [B], in order of appearance."""
    first: dict[int, int] = {}
    for row, identifier in enumerate(ids.tolist()):
        first.setdefault(identifier, row)
    return first


class Batch:
    """Rows of declared columns.

    `B T` columns are given flat `[N]` (N = sum of `length`) or padded `[B, T]`, and kept flat; `B` columns are
    tensors `[B]`, or lists where the dtype is object; columns without dimensions are plain values.

    >>> batch = Batch({"length": [2, 1], "tokens": [5, 6, 7], "reward": [1.0, 0.0]})
    >>> batch["tokens"].tolist()
    [[5, 6], [7, 0]]

    Raises UnknownNameError for an undeclared column, GraphError for a size that does not fit.
    """

    def __init__(self, columns: Mapping[str, Any], *, table: ColumnTable = COLUMNS) -> None:
        self.table = table
        self._columns: dict[str, Any] = {}
        self._rows: int | None = None
        self._row_of_token: Tensor | None = None
        self._place_of_token: Tensor | None = None
        if "length" in columns:
            self._put("length", columns["length"])
        for name, value in columns.items():
            if name != "length":
                self._put(name, value)

    def _put(self, name: str, value: Any) -> None:
        column = self.table[name]
        if column.dims == TOKEN:
            value = self._flatten(name, self._tensor(name, value, column.dtype))
        elif column.dims == ROW and column.dtype == "object":
            value = list(value)
        elif column.dims in (ROW, COMPONENTS):
            value = self._tensor(name, value, column.dtype)
        else:
            self._columns[name] = value
            return
        rows = len(self) if column.dims == TOKEN else len(value)
        if self._rows is None:
            self._rows = rows
        elif rows != self._rows:
            raise GraphError(f"column {name!r} has {rows} rows; the batch has {self._rows}")
        self._columns[name] = value

    @staticmethod
    def _tensor(name: str, value: Any, dtype: str) -> Tensor:
        tensor = torch.as_tensor(value)
        if tensor.dtype in _DTYPES[dtype]:
            return tensor
        converted = tensor.dtype in _CONVERTED[dtype]
        if converted and dtype == "bool":
            converted = bool(((tensor == 0) | (tensor == 1)).all())
        if converted or not tensor.numel():
            return tensor.to(_DTYPES[dtype][0])
        raise GraphError(f"column {name!r} is declared as {dtype}; got {tensor.dtype}")

    def _flatten(self, name: str, tensor: Tensor) -> Tensor:
        total = self.tokens_total
        if tensor.dim() == 1 and len(tensor) == total:
            return tensor
        if tensor.dim() == 2 and tensor.shape[0] == len(self) and tensor.shape[1] >= self.width:
            return tensor[self.row_of_token, self.place_of_token]
        raise GraphError(
            f"column {name!r} has shape {tuple(tensor.shape)}; expected [{total}] tokens without padding, "
            f"or [{len(self)}, {self.width} or more] padded"
        )

    # -- sizes

    def __len__(self) -> int:
        return self._rows or 0

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns, in the order in which they were added."""
        return tuple(self._columns)

    @property
    def length(self) -> Tensor:
        """Return the tokens of each row, without padding, int64 [B]."""
        if "length" not in self._columns:
            raise GraphError("this batch has no `length`, so it can hold no token columns")
        length: Tensor = self._columns["length"]
        return length

    @property
    def tokens_total(self) -> int:
        """Return the tokens of all rows, without padding: N."""
        return int(self.length.sum())

    @property
    def width(self) -> int:
        """Return the tokens of the longest row: T of a padded column."""
        return int(self.length.max()) if len(self) else 0

    @property
    def row_of_token(self) -> Tensor:
        """Return the row of each token, int64 [N]."""
        if self._row_of_token is None:
            self._row_of_token = torch.repeat_interleave(torch.arange(len(self.length)), self.length)
        return self._row_of_token

    @property
    def place_of_token(self) -> Tensor:
        """Return the place of each token in its row, int64 [N]."""
        if self._place_of_token is None:
            start = self.length.cumsum(0) - self.length
            self._place_of_token = torch.arange(self.tokens_total) - start[self.row_of_token]
        return self._place_of_token

    # -- reading

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def stored(self, name: str) -> Any:
        """Return a column as it is kept: `B T` without padding [N], any other as `batch[name]` gives it."""
        if name not in self._columns:
            raise unknown("column of this batch", name, self._columns)
        return self._columns[name]

    def __getitem__(self, name: str) -> Any:
        """Return a column: `B T` as [B, T], 0 or False beyond `length`; `B` as [B] or a list; no dims as a value."""
        value = self.stored(name)
        return self.pad(value) if self.table[name].dims == TOKEN else value

    def flat(self, name: str) -> Tensor:
        """Return a token column without padding, [N]."""
        if self.table[name].dims != TOKEN:
            raise GraphError(f"column {name!r} has no token dimension")
        value: Tensor = self.stored(name)
        return value

    def pad(self, flat: Tensor) -> Tensor:
        """Return flat values [N] padded to [B, T], 0 or False beyond `length`."""
        padded = flat.new_zeros((len(self), self.width))
        padded[self.row_of_token, self.place_of_token] = flat
        return padded

    def data_row(self, row: int) -> dict[str, Any]:
        """Return the data set's columns of one row by name, without the prefix `data.`."""
        named = {name.removeprefix("data."): name for name in self.names if name.startswith("data.")}
        return {bare: self._columns[name][row] for bare, name in named.items()}

    # -- new batches

    def take(self, rows: Tensor | Sequence[int]) -> Batch:
        """Return the given rows in the given order; rows may repeat. Raises GraphError for a row that is not there."""
        if isinstance(rows, Tensor) and rows.dtype == torch.bool:
            raise GraphError("take wants indices, not a boolean mask: mask.nonzero().flatten()")
        index = torch.as_tensor(rows, dtype=torch.int64)
        if index.numel() and (int(index.min()) < 0 or int(index.max()) >= len(self)):
            raise GraphError(f"rows {index.tolist()} are not all within 0..{len(self) - 1}")
        columns: dict[str, Any] = {}
        tokens = None
        if "length" in self._columns:
            length = self.length
            start = length.cumsum(0) - length
            lengths = length[index]
            inside = torch.arange(int(lengths.sum())) - torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
            tokens = torch.repeat_interleave(start[index], lengths) + inside
        for name, value in self._columns.items():
            column = self.table[name]
            if column.dims == TOKEN:
                columns[name] = value[tokens]
            elif column.dims and column.dtype == "object":
                columns[name] = [value[i] for i in index.tolist()]
            elif column.dims:
                columns[name] = value[index]
            else:
                columns[name] = value
        return Batch(columns, table=self.table)

    def assign(self, columns: Mapping[str, Any], *, table: ColumnTable | None = None) -> Batch:
        """Return a batch with these columns added or replaced."""
        return Batch({**self._columns, **columns}, table=table or self.table)

    def drop(self, names: Iterable[str]) -> Batch:
        """Return a batch without these columns."""
        gone = set(names)
        return Batch({name: value for name, value in self._columns.items() if name not in gone}, table=self.table)

    @staticmethod
    def concat(batches: Sequence[Batch]) -> Batch:
        """Return all rows one after another. Raises GraphError if the batches have different columns."""
        if not batches:
            raise GraphError("nothing to concatenate: no batch was given")
        first = batches[0]
        columns: dict[str, Any] = {}
        for name in first.names:
            values = []
            for batch in batches:
                if set(batch.names) != set(first.names):
                    odd = sorted(set(batch.names) ^ set(first.names))
                    raise GraphError(
                        f"batches with different columns cannot be joined; they differ in {', '.join(odd)}"
                    )
                values.append(batch.stored(name))
            column = first.table[name]
            if column.dims and column.dtype == "object":
                columns[name] = [item for value in values for item in value]
            elif column.dims:
                columns[name] = torch.cat(values)
            else:
                columns[name] = values[-1]
        return Batch(columns, table=first.table)

    def __repr__(self) -> str:
        tokens = f", {counted(self.tokens_total, 'token')}" if "length" in self._columns else ""
        return f"Batch({counted(len(self), 'row')}{tokens}: {', '.join(self.names)})"
