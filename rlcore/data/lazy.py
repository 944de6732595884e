"""Rows that stay in their file until they are drawn: for data that does not fit into memory."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from rlcore.data.readers import ParquetNotes, ending, existing_file, jsonl_lines, parquet, parse, require_object
from rlcore.data.rows import Row
from rlcore.errors import DataError

LARGEST_GROUP = 256 * 2**20
"""Bytes of a parquet row group, unpacked: reading one row decodes its group whole."""
KEPT_GROUPS = 2


class RowsByPlace(Protocol):
    """What has rows by their places."""

    def get(self, index: int) -> dict[str, Any]:
        """Return one row by its place."""
        ...


class RowSource(RowsByPlace, Protocol):
    """A file whose raw rows can be gone through, and then asked for one by one."""

    def scan(self) -> Iterator[dict[str, Any]]:
        """Return every row in order. Must be exhausted before any is asked for."""
        ...


class JsonlRows:
    """A jsonl file with the place of each line: eight bytes a row."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.starts = array("q")
        self.numbers = array("q")

    def scan(self) -> Iterator[dict[str, Any]]:
        """Yield every row, its place noted on the way."""
        for index, (place, number, line) in enumerate(jsonl_lines(self.file)):
            self.starts.append(place)
            self.numbers.append(number)
            yield require_object(parse(line, self.file, number), self.file, index)

    def get(self, index: int) -> dict[str, Any]:
        """Return one row."""
        with self.file.open("rb") as lines:
            lines.seek(self.starts[index])
            return require_object(parse(lines.readline(), self.file, self.numbers[index]), self.file, index)


class ParquetRows:
    """A parquet file read by row groups, of which the last few stay in memory."""

    def __init__(self, file: Path) -> None:
        self.file = file
        with parquet(file) as table:
            about = table.metadata
            sizes = [about.row_group(i) for i in range(about.num_row_groups)]
            self.written = ParquetNotes.of(table.schema_arrow.metadata)
        for number, group in enumerate(sizes):
            if group.total_byte_size > LARGEST_GROUP:
                raise DataError(
                    f"data file {str(file)!r}: row group {number} has {group.num_rows} rows and"
                    f" {group.total_byte_size / 2**20:.0f} MiB, which would be decoded whole for each row; the most is"
                    f" {LARGEST_GROUP // 2**20} MiB. `rlcore data convert FILE OUT.jsonl` makes a file of single rows"
                )
        self.ends = list(accumulate(group.num_rows for group in sizes))
        self._groups: OrderedDict[int, Any] = OrderedDict()

    def scan(self) -> Iterator[dict[str, Any]]:
        """Yield every row, one group after the other."""
        first = 0
        for number, end in enumerate(self.ends):
            with parquet(self.file) as table:
                yield from self.written.rows(table.read_row_group(number), first=first)
            first = end

    def get(self, index: int) -> dict[str, Any]:
        """Return one row."""
        number = bisect_right(self.ends, index)
        if number not in self._groups:
            self._groups[number] = self._read(number)
            if len(self._groups) > KEPT_GROUPS:
                self._groups.popitem(last=False)
        self._groups.move_to_end(number)
        start = self.ends[number - 1] if number else 0
        return next(self.written.rows(self._groups[number].slice(index - start, 1), first=index))

    def _read(self, number: int) -> Any:
        with parquet(self.file) as table:
            return table.read_row_group(number)


class LazyRows(Sequence[Row]):
    """Rows of a file, made when they are asked for: eight bytes a row in memory, and what was read last.

    `columns` are those of all rows; `counts` says what was left out on the way, as those of `Rows` do.
    """

    def __init__(
        self,
        source: RowsByPlace,
        places: NDArray[np.int64],
        make: Callable[[int, Mapping[str, Any]], Row],
        *,
        columns: Sequence[str],
        counts: Mapping[str, int],
    ) -> None:
        self._source, self._places, self._make = source, places, make
        self.columns = tuple(columns)
        self.counts = dict(counts)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        """Return one row, or a list of those of a slice."""
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = int(self._places[index])
        return self._make(place, self._source.get(place))


def open_row_source(path: str | Path) -> RowSource:
    """Return the source of a jsonl or parquet file. Raises DataError for a format without single rows."""
    file = existing_file(path)
    if ending(file) == ".parquet":
        return ParquetRows(file)
    if file.suffix.lower() in (".jsonl", ".ndjson"):
        return JsonlRows(file)
    raise DataError(
        f"data file {str(file)!r}: {file.suffix!r} cannot be read row by row (data.lazy); .jsonl and .parquet can"
    )
