"""Rows into jsonl and parquet files that read back exactly as they were."""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlcore.data.readers import METADATA, ParquetNotes, ending
from rlcore.errors import DataError

DEEPEST = 30
"""Lists and structs within one another in a parquet column: Arrow reads no schema of more than 100 levels, and a list
takes two of them."""
Writer = Callable[[Path, Iterable[Mapping[str, Any]], bool], int]
ROW_GROUP = 1000
"""Rows of a parquet row group: what a lazy reader decodes to get at one of them."""


def write_rows(path: str | Path, rows: Iterable[Mapping[str, Any]], *, overwrite: bool = False) -> int:
    """Write rows to a `.jsonl`, `.jsonl.gz` or `.parquet` file and return how many; `read_rows` gives them back equal.

    Types are kept: 3 stays an int, "3" a text, 3.0 a float. In parquet a column whose values one type cannot hold
    exactly (numbers beside texts, empty objects, None inside an object) is written as JSON text and noted as such in
    the file's metadata. The file is written aside and renamed, so that it is there whole or not at all.

    Raises:
        DataError: the file is there (unless `overwrite`) or cannot be written, an ending that is not written, no rows,
            or a value that the format cannot hold (NaN and bytes in JSON), named by row and column.
    """
    file = Path(path).expanduser()
    writer = WRITERS.get(ending(file))
    if writer is None:
        raise DataError(
            f"{str(file)!r}: unknown ending {file.suffix!r} to write; known: {', '.join(WRITERS)}, .jsonl.gz"
        )
    try:
        return write_aside(file, rows, writer, overwrite=overwrite)
    except OSError as error:  # no right to write there, no space, a name that is too long
        raise DataError(f"{str(file)!r} cannot be written: {error.strerror or error}") from error


def write_aside(file: Path, rows: Iterable[Mapping[str, Any]], writer: Writer, *, overwrite: bool) -> int:
    """Write a file aside and rename it; return how many rows. Raises as `write_rows` does, and OSError."""
    if file.exists() and not overwrite:
        raise DataError(f"{str(file)!r} is there already; nothing was written. Choose another name, or remove it first")
    if not file.parent.is_dir():
        raise DataError(f"{str(file)!r} cannot be written: there is no folder {str(file.parent)!r}")
    aside = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        count = writer(aside, rows, file.suffix.lower() == ".gz")
        if not count:
            raise DataError(f"no rows to write to {str(file)!r}")
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)
    return count


def write_jsonl(file: Path, rows: Iterable[Mapping[str, Any]], compressed: bool) -> int:
    """Write one object a line, in strict JSON; return how many."""
    count = 0
    with gzip.open(file, "wb", compresslevel=6) if compressed else file.open("wb") as lines:
        for index, row in enumerate(rows):
            lines.write(json_line(row, index))
            count += 1
    return count


def json_line(row: Mapping[str, Any], index: int) -> bytes:
    """Return a row as one line. Raises DataError naming the column of what JSON cannot hold."""
    for name, value in row.items():
        if reason := not_json(value):
            raise DataError(f"row {index}, column {name!r}: {reason} cannot be written as JSON; write .parquet")
    text = json.dumps(row, ensure_ascii=False, allow_nan=False)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can only write as an escape
        return json.dumps(row, allow_nan=False).encode() + b"\n"


def not_json(value: Any) -> str:
    """Return what of a value strict JSON cannot hold, in words, or nothing."""
    if isinstance(value, dict):
        key = next((key for key in value if not isinstance(key, str)), None)
        return f"a key that is no text ({key!r})" if key is not None else first_text(map(not_json, value.values()))
    if isinstance(value, list):
        return first_text(map(not_json, value))
    if isinstance(value, float):
        return "" if math.isfinite(value) else str(value)
    return "" if value is None or isinstance(value, str | int) else f"a {type(value).__name__}"


def first_text(texts: Iterable[str]) -> str:
    """Return the first text that is not empty, or an empty one."""
    return next(filter(None, texts), "")


def write_parquet(file: Path, rows: Iterable[Mapping[str, Any]], compressed: bool) -> int:
    """Write one column a key; return the number of rows."""
    import pyarrow
    import pyarrow.parquet

    if compressed:
        raise DataError("parquet is compressed inside; write it without .gz")
    whole = list(rows)
    names = list(dict.fromkeys(name for row in whole for name in row))
    absent = [name for name in names if any(name not in row for row in whole)]
    columns, as_json = {}, []
    for name in names:
        values = [row.get(name) for row in whole]
        # A gap means absence there, so that a None which is really written has to be told from it.
        explicit = name in absent and any(name in row and row[name] is None for row in whole)
        column = None if explicit else exact_column(values)
        if column is None:
            as_json.append(name)
            texts = [json_cell(row, name, index) if name in row else None for index, row in enumerate(whole)]
            column = pyarrow.array(texts, pyarrow.string())
        columns[name] = column
    noted = {METADATA: json.dumps({"json": as_json, "absent": absent}).encode()}
    table = pyarrow.table(columns).replace_schema_metadata(noted)
    if whole:
        pyarrow.parquet.write_table(table, file, row_group_size=ROW_GROUP)
    return len(whole)


def exact_column(values: Sequence[Any]) -> Any:
    """Return the values as an Arrow array if it gives them back exactly, else None."""
    import pyarrow

    try:
        column = pyarrow.array(values)
        back = [row["x"] for row in ParquetNotes().rows(pyarrow.table({"x": column}))]
    except (pyarrow.ArrowException, OverflowError, ValueError, TypeError, KeyError):
        return None  # mixed types, numbers beyond 64 bits, half a surrogate pair: JSON holds all of these
    # Parquet has no struct without fields and no column without a type.
    kind = str(column.type)
    unstored = "null" in kind or "struct<>" in kind or kind.count("<") > DEEPEST
    return None if unstored or not equal_exactly(list(values), back) else column


def json_cell(row: Mapping[str, Any], name: str, index: int) -> str:
    """Return a cell as JSON text (NaN as Python reads it). Raises DataError for a value that does not come back from
    it.
    """
    try:
        text = json.dumps(row[name])
    except (TypeError, ValueError) as error:
        why = str(error)
    else:
        if equal_exactly(row[name], json.loads(text)):
            return text
        why = f"{row[name]!r:.80} is {text:.80} there"
    raise DataError(
        f"row {index}, column {name!r}: no type of a parquet column holds all of its values exactly, and JSON text does"
        f" not hold this one: {why}"
    )


def equal_exactly(one: Any, other: Any) -> bool:
    """Return whether two values are equal in every type and, of dicts, key: 1 is not 1.0, NaN is NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal_exactly(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal_exactly, one, other))
    return bool(one == other or (one != one and other != other))


def difference(row: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return in which column two rows differ first, in words; nothing for equal ones."""
    for name in dict.fromkeys((*row, *other)):
        if (name in row) != (name in other) or not equal_exactly(row.get(name), other.get(name)):
            return f"column {name!r}: {row.get(name)!r:.60} against {other.get(name)!r:.60}"
    return ""


WRITERS: dict[str, Writer] = {
    ".jsonl": write_jsonl,
    ".parquet": write_parquet,
}
