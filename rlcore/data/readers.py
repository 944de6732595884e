"""Files into rows of plain Python values: jsonl, json and parquet, local."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from rlcore.errors import DataError, nearest

TOO_DEEP = "lists and objects within one another are nested too deeply to be read"


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """Return the rows of a jsonl, json (a list of objects) or parquet file, as dicts of native Python values.

    Text may be compressed (`.jsonl.gz`). A parquet struct has the union of the fields of all rows, the missing ones as
    None; such None fields are dropped from structs (a row's own columns stay, None too), so that a row reads as it was
    before it was written. What `rlcore.data.write_rows` wrote reads back exactly.

    Raises:
        DataError: no such file (with the nearest name beside it), an unknown ending, an unreadable or empty file, or
            a row that is no object (named by its number, from 0).
    """
    rows = list(iterate_rows(path))
    if not rows:
        raise DataError(f"data file {str(path)!r} is empty (0 rows)")
    return rows


def iterate_rows(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the same rows one by one; a json list is read whole all the same. Raises as `read_rows` does."""
    file = existing_file(path)
    reader = READERS.get(ending(file))
    if reader is None:
        raise file_error(file, f": unknown ending {file.suffix!r}; known: {', '.join(READERS)}, text also with .gz")
    if file.stat().st_size == 0:
        raise file_error(file, " is empty (0 bytes)")
    for index, row in enumerate(reader(file)):
        yield require_object(row, file, index)


def require_object(row: Any, file: Path, index: int) -> dict[str, Any]:
    """Return the same row. Raises DataError if it is no object."""
    if not isinstance(row, dict):
        hint = describe_first_bytes(file)
        raise file_error(file, f", row {index}: expected an object, found {type(row).__name__}{hint}")
    return row


def file_error(file: Path, problem: str) -> DataError:
    """Return the error for a file: its name, and what is wrong in words that follow it."""
    return DataError(f"data file {str(file)!r}{problem}")


def ending(file: Path) -> str:
    """Return the ending that tells a file's format, without that of its compression."""
    compressed = file.suffix.lower() == ".gz" and Path(file.stem).suffix.lower() not in ("", ".parquet")
    return Path(file.stem if compressed else file.name).suffix.lower()


MAGIC = {b"PAR1": "parquet", b"\x1f\x8b": "gzip", b"PK\x03\x04": "a zip archive"}


def describe_first_bytes(file: Path) -> str:
    """Return what a file's first bytes say it is, if that is not what its name says: the end of an error's message."""
    with file.open("rb") as content:
        head = content.read(512)
    if head.startswith(b"version https://git-lfs"):
        return "; it is a Git LFS pointer, not the data: fetch it with `git lfs pull`"
    kind = next((kind for mark, kind in MAGIC.items() if head.startswith(mark)), "")
    beginning = head.lstrip()[:1]
    if kind and ending(file) != f".{kind}" and not (kind == "gzip" and file.suffix.lower() == ".gz"):
        return f"; its first bytes are those of {kind}"
    if ending(file) == ".parquet" and beginning in (b"{", b"["):
        return "; its first bytes are those of JSON text"
    if ending(file) in (".jsonl", ".ndjson") and beginning == b"[":
        return "; it looks like one JSON list: name it .json"
    return ""


def existing_file(path: str | Path) -> Path:
    """Return the path, if a file is there. Raises DataError with the nearest name of the same folder."""
    file = Path(path).expanduser()
    try:
        if file.is_file():
            if not os.access(file, os.R_OK):
                raise file_error(file, " may not be read by this user; look at its permissions")
            return file
        if file.is_dir():
            inside = [child.name for child in sorted(file.iterdir()) if ending(child) in READERS]
            raise file_error(file, f" is a folder; data files in it: {', '.join(inside) or 'none'}")
        if file.exists():
            raise file_error(file, " is a pipe or a device; expected a file, which can be read twice")
        if not file.parent.is_dir():
            raise file_error(file, " does not exist, nor does its folder")
        siblings = [child.name for child in file.parent.iterdir() if child.is_file()]
    except OSError as error:
        raise file_error(file, f" cannot be reached: {error.strerror}") from error
    raise file_error(file, f" does not exist.{nearest(file.name, siblings)}")


def read_jsonl(file: Path) -> Iterator[Any]:
    """Yield each non-blank line as what it says."""
    for _, number, line in jsonl_lines(file):
        yield parse(line, file, number)


def jsonl_lines(file: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield the first byte, the number (from 1) and the bytes of each non-blank line, without a byte order mark."""
    place = 0
    try:
        with open_bytes(file) as lines:
            for number, line in enumerate(lines, start=1):
                text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if text.strip():
                    yield place + len(line) - len(text), number, text
                place += len(line)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise file_error(file, f" is not readable as gzip (cut off?): {error}") from error


def open_bytes(file: Path) -> IO[bytes]:
    """Return the file's bytes, decompressed if its name says that they are compressed."""
    return cast("IO[bytes]", gzip.open(file, "rb")) if file.suffix.lower() == ".gz" else file.open("rb")


def read_json(file: Path) -> Iterator[Any]:
    """Yield the items of the list that the file is. Lines of objects under this ending are read as jsonl."""
    try:
        with open_bytes(file) as whole_file:
            text = whole_file.read().decode("utf-8-sig")
        whole = json.loads(text, object_pairs_hook=reject_repeated_keys)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            yield from read_jsonl(file)
            return
        hints = f"{truncation_hint(error, text)}{describe_first_bytes(file)}"
        raise file_error(file, f", line {error.lineno}: {explain_json_error(error)}{hints}") from error
    except UnicodeDecodeError as error:
        raise file_error(file, f" is not UTF-8 text: {error}{describe_first_bytes(file)}") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise file_error(file, f" is not readable as gzip (cut off?): {error}") from error
    except (ValueError, RecursionError) as error:
        raise file_error(file, f": {explain_json_error(error)}") from error
    if not isinstance(whole, list):
        keys = f" with keys {', '.join(map(str, whole))}" if isinstance(whole, dict) else ""
        raise file_error(file, f": expected a list of objects, found {type(whole).__name__}{keys}")
    yield from whole


def read_parquet(file: Path) -> Iterator[Any]:
    """Yield each row with native values, read batch by batch."""
    with parquet(file) as table:
        written = ParquetNotes.of(table.schema_arrow.metadata)
        first = 0
        for batch in table.iter_batches():
            yield from written.rows(batch, first=first)
            first += batch.num_rows


@contextlib.contextmanager
def parquet(file: Path) -> Iterator[Any]:
    """Yield the opened parquet file. Raises DataError for what is none, breaks off, or holds what no row can have."""
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            names = table.schema_arrow.names
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise UnusableParquetError(f": column {twice!r} stands {names.count(twice)} times; expected once")
            yield table
    except UnusableParquetError as error:
        raise file_error(file, f"{error}") from error
    except (pyarrow.ArrowException, OSError) as error:
        raise file_error(file, f" is not readable as parquet: {error}{describe_first_bytes(file)}") from error


class UnusableParquetError(ValueError):
    """What of a parquet file cannot be used, in words that follow the file's name."""


METADATA = b"rlcore"


class ParquetNotes(NamedTuple):
    """What `write_rows` noted of a parquet file: columns that hold JSON text, and those in which a gap means absence.

    A file from elsewhere has neither.
    """

    json: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()

    @classmethod
    def of(cls, metadata: Mapping[bytes, bytes] | None) -> ParquetNotes:
        """Return what a schema's metadata says. Raises UnusableParquetError if it is not what `write_rows` notes."""
        try:
            noted = json.loads((metadata or {}).get(METADATA, b"{}"))
            return cls(frozenset(noted.get("json", ())), frozenset(noted.get("absent", ())))
        except (ValueError, TypeError, AttributeError) as error:
            raise UnusableParquetError(
                f": its notes of rlcore (metadata {METADATA.decode()!r}) are damaged: {error}"
            ) from error

    def rows(self, batch: Any, *, first: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the rows of a batch or table, with native values; `first` is the number of the first of them.

        Raises:
            UnusableParquetError: a text that is not UTF-8, a key that stands twice in one map, or damaged JSON text.
        """
        # Arrow's own conversion gives Python lists, dicts and scalars; the way through pandas gives arrays in cells.
        try:
            cells = batch.to_pylist(maps_as_pydicts="strict")
        except (KeyError, ValueError) as error:
            raise UnusableParquetError(describe_unusable_cell(batch, first)) from error
        for place, row in enumerate(cells, start=first):
            kept = {name: value for name, value in row.items() if value is not None or name not in self.absent}
            yield {name: self._value(name, value, place) for name, value in kept.items()}

    def _value(self, name: str, value: Any, place: int) -> Any:
        if name not in self.json or value is None:
            return native(value, drop_none=True)
        try:
            return json.loads(value)
        except (ValueError, TypeError) as error:
            raise UnusableParquetError(
                f", row {place}, column {name!r}: rlcore wrote it as JSON text, and it is none: {error}"
            ) from error


def describe_unusable_cell(batch: Any, first: int) -> str:
    """Return the first cell of a batch that has no value in Python, in words."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for place, cell in enumerate(column):
            try:
                cell.as_py(maps_as_pydicts="strict")
            except (KeyError, ValueError) as error:
                return f", row {first + place}, column {name!r}: {error.args[0] if len(error.args) == 1 else error}"
    return ": a value that cannot be read"


def parse(line: bytes, file: Path, number: int) -> Any:
    """Return one line of JSON. Raises DataError naming the line."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise file_error(file, f", line {number} is not UTF-8 text: {error}{describe_first_bytes(file)}") from error
    try:
        return json.loads(text, object_pairs_hook=reject_repeated_keys)
    except json.JSONDecodeError as error:
        cut = "" if text.endswith("\n") else truncation_hint(error, text)
        raise file_error(
            file, f", line {number}: {explain_json_error(error)}{cut}{describe_first_bytes(file)}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise file_error(file, f", line {number}: {explain_json_error(error)}") from error


def truncation_hint(error: json.JSONDecodeError, text: str) -> str:
    """Return a hint that a text breaks off, if the parser got to its end or to a string that never ends."""
    at_end = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
    return " (it breaks off at its end: was it written to the end?)" if at_end else ""


def reject_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's pairs as a dict. Raises DataError naming a key that stands twice: json would keep its last
    value.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"key {twice!r} stands {names.count(twice)} times in one object; expected once")
    return found


def explain_json_error(error: ValueError | RecursionError) -> str:
    """Return why a text is not usable JSON, in words."""
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg}"
    if isinstance(error, RecursionError):
        return TOO_DEEP
    if isinstance(error, DataError):
        return str(error)
    # Python's own limit on the digits of a whole number, the one other reason that its parser has.
    return f"a whole number of more than {sys.get_int_max_str_digits()} digits; write it as a text"


def lone_surrogate(value: Any) -> str:
    """Return the first half of a surrogate pair that stands alone in a value's texts, as JSON writes it, or nothing."""
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
    """Return the same value in Python's own types: numpy scalars and arrays, tuples and nested containers.

    `drop_none` takes None fields out of dicts: parquet puts them there for fields that only other rows have.
    """
    if isinstance(value, dict):
        items = ((key, native(item, drop_none=drop_none)) for key, item in value.items())
        return {key: item for key, item in items if item is not None or not drop_none}
    if isinstance(value, list | tuple):
        return [native(item, drop_none=drop_none) for item in value]
    if type(value).__name__ in ("NAType", "NaTType"):  # gaps in a table of pandas, which equal nothing
        return None
    if hasattr(value, "to_pydatetime") and not value.nanosecond:  # pandas' times of nanoseconds, which Arrow gives
        return value.to_pydatetime()
    if hasattr(value, "to_pytimedelta") and not value.nanoseconds:
        return value.to_pytimedelta()
    if hasattr(value, "tolist") and hasattr(value, "dtype"):  # numpy and torch, without importing either
        return native(value.tolist(), drop_none=drop_none)
    return value


READERS: dict[str, Callable[[Path], Iterator[Any]]] = {
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".json": read_json,
    ".parquet": read_parquet,
}
