"""Files into rows of plain Python values: jsonl, json and parquet, local."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rlcore.errors import DataError, nearest

TOO_DEEP = "lists and objects within one another are nested too deeply to be read"


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a jsonl, json (a list of objects) or parquet file, as dicts of native Python values.

    A parquet struct has the union of the fields of all rows, the missing ones as None; such None fields are dropped
    from structs (a row's own columns stay, None too), so that a row reads as it was before it was written.

    Raises:
        DataError: no such file (with the nearest name beside it), an unknown ending, an unreadable or empty file, or
            a row that is no object (named by its number, from 0).
    """
    file = existing_file(path)
    reader = READERS.get(file.suffix.lower())
    if reader is None:
        raise DataError(f"data file {str(file)!r}: unknown ending {file.suffix!r}; known: {', '.join(READERS)}")
    if file.stat().st_size == 0:
        raise DataError(f"data file {str(file)!r} is empty (0 bytes)")
    rows = []
    for index, row in enumerate(reader(file)):
        if not isinstance(row, dict):
            raise DataError(f"data file {str(file)!r}, row {index}: expected an object, found {type(row).__name__}")
        rows.append(row)
    if not rows:
        raise DataError(f"data file {str(file)!r} is empty (0 rows)")
    return rows


def existing_file(path: str | Path) -> Path:
    """The path, if a file is there. Raises DataError with the nearest name of the same folder."""
    file = Path(path).expanduser()
    if file.is_file():
        return file
    if file.is_dir():
        inside = [child.name for child in sorted(file.iterdir()) if child.suffix.lower() in READERS]
        raise DataError(f"data file {str(file)!r} is a folder; data files in it: {', '.join(inside) or 'none'}")
    if not file.parent.is_dir():
        raise DataError(f"data file {str(file)!r} does not exist, nor does its folder")
    siblings = [child.name for child in file.parent.iterdir() if child.is_file()]
    raise DataError(f"data file {str(file)!r} does not exist.{nearest(file.name, siblings)}")


def read_jsonl(file: Path) -> Iterator[Any]:
    """Each non-blank line as what it says."""
    with file.open(encoding="utf-8-sig") as lines:
        try:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield parse(line, file, number)
        except UnicodeDecodeError as error:
            raise DataError(f"data file {str(file)!r} is not UTF-8 text: {error}") from error


def read_json(file: Path) -> Iterator[Any]:
    """The items of the list that the file is. Lines of objects under this ending are read as jsonl."""
    try:
        whole = json.loads(file.read_text(encoding="utf-8-sig"), object_pairs_hook=keys_once)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            yield from read_jsonl(file)
            return
        raise DataError(f"data file {str(file)!r}, line {error.lineno}: {unusable(error)}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"data file {str(file)!r} is not UTF-8 text: {error}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"data file {str(file)!r}: {unusable(error)}") from error
    if not isinstance(whole, list):
        keys = f" with keys {', '.join(map(str, whole))}" if isinstance(whole, dict) else ""
        raise DataError(f"data file {str(file)!r}: expected a list of objects, found {type(whole).__name__}{keys}")
    yield from whole


def read_parquet(file: Path) -> Iterator[Any]:
    """Each row with native values, read batch by batch."""
    import pyarrow
    import pyarrow.parquet

    try:
        # Arrow's own conversion gives Python lists, dicts and scalars; the way through pandas gives arrays in cells.
        with pyarrow.parquet.ParquetFile(file) as table:
            for batch in table.iter_batches():
                for row in batch.to_pylist():
                    yield {name: native(value, drop_none=True) for name, value in row.items()}
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"data file {str(file)!r} is not readable as parquet: {error}") from error


def parse(line: str, file: Path, number: int) -> Any:
    """One line of JSON. Raises DataError naming the line."""
    try:
        return json.loads(line, object_pairs_hook=keys_once)
    except (ValueError, RecursionError) as error:
        raise DataError(f"data file {str(file)!r}, line {number}: {unusable(error)}") from error


def keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's pairs as a dict. Raises DataError naming a key that stands twice: json would keep its last value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"key {twice!r} stands {names.count(twice)} times in one object; expected once")
    return found


def unusable(error: ValueError | RecursionError) -> str:
    """Why a text is no JSON that can be used, in words."""
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg}"
    if isinstance(error, RecursionError):
        return TOO_DEEP
    if isinstance(error, DataError):
        return str(error)
    # Python's own limit on the digits of a whole number, the one other reason that its parser has.
    return f"a whole number of more than {sys.get_int_max_str_digits()} digits; write it as a text"


def lone_surrogate(value: Any) -> str:
    """The first half of a surrogate pair that stands alone in a value's texts, as JSON writes it; else nothing."""
    if isinstance(value, str):
        # The encoder looks far faster than a loop; nothing else about a text can fail.
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return f"\\u{ord(value[error.start]):04x}"
        return ""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((found for item in inside if (found := lone_surrogate(item))), "")


def native(value: Any, *, drop_none: bool = False) -> Any:
    """The same value in Python's own types: numpy scalars and arrays, tuples and nested containers.

    `drop_none` takes None fields out of dicts: parquet puts them there for fields that only other rows have.
    """
    if isinstance(value, dict):
        items = ((key, native(item, drop_none=drop_none)) for key, item in value.items())
        return {key: item for key, item in items if item is not None or not drop_none}
    if isinstance(value, list | tuple):
        return [native(item, drop_none=drop_none) for item in value]
    if hasattr(value, "tolist") and hasattr(value, "dtype"):  # numpy and torch, without importing either
        return native(value.tolist(), drop_none=drop_none)
    return value


READERS: dict[str, Callable[[Path], Iterator[Any]]] = {
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".json": read_json,
    ".parquet": read_parquet,
}
