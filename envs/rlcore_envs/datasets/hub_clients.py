"""Data sets from the two hubs, through the hubs' own clients, which keep their own cache and know their mirrors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rlcore.data.readers import ParquetNotes
from rlcore.errors import DataError, nearest

log = logging.getLogger("rlcore")


class HubId(NamedTuple):
    """A data set of a hub: `hf:owner/name` or `modelscope:owner/name`, each with an optional `@REVISION`."""

    hub: str
    name: str
    revision: str = ""

    def __str__(self) -> str:
        return f"{self.hub}:{self.name}" + (f"@{self.revision}" if self.revision else "")


def is_hub_id(path: str) -> bool:
    """Return whether a path names a data set of a hub rather than a file."""
    return path.partition(":")[0] in HUBS and ":" in path


def hub_id(path: str) -> HubId:
    """Return what a path such as `hf:owner/name@v1` says. Raises DataError for a path of any other form."""
    hub, colon, rest = path.partition(":")
    name, _, revision = rest.partition("@")
    if not colon or hub not in HUBS or name.count("/") != 1 or name.startswith("/") or name.endswith("/"):
        ways = ", ".join(f"{known}:OWNER/NAME" for known in HUBS)
        raise DataError(f"data.path {path!r} names no data set of a hub; write {ways}.{nearest(hub, HUBS)}")
    return HubId(hub, name, revision)


class HubRows:
    """The rows of a fetched data set (of the package `datasets`): gone through, and then asked for one by one.

    They are read as the client stores them, so that images, audio and video stay bytes, however deep.
    """

    def __init__(self, dataset: Any) -> None:
        self._tables = dataset.with_format("arrow")

    def scan(self) -> Iterator[dict[str, Any]]:
        """Yield every row in order, with native values."""
        for table in self._tables.iter(1000):
            yield from ParquetNotes().rows(table)

    def get(self, index: int) -> dict[str, Any]:
        """Return one row."""
        [row] = ParquetNotes().rows(self._tables[index])
        return row


def fetch(hub_data: HubId, *, config: str = "", split: str = "train") -> HubRows:
    """Return the rows of one split of a hub's data set (`split` as the hub names it, `test[:100]` too).

    Raises:
        DataError: the client's package is missing, or the data set cannot be fetched, with the client's own reason and
            how to give a file instead.
    """
    log.info("fetching %s, split %s", hub_data, split)
    return HubRows(HUBS[hub_data.hub](hub_data, config, split))


def from_hf(hub_data: HubId, config: str, split: str) -> Any:
    """Return a data set of the Hugging Face hub (`HF_ENDPOINT`, `HF_HOME` and `HF_HUB_OFFLINE` are the client's)."""
    try:
        import datasets
    except ImportError as error:
        raise missing_client_error(hub_data, "datasets", "'rlcore[hub]'", error) from error
    try:
        return datasets.load_dataset(hub_data.name, config or None, split=split, revision=hub_data.revision or None)
    except Exception as error:  # the client's errors share no base
        raise fetch_error(hub_data, config, split, error, "set HF_ENDPOINT for a mirror") from error


def from_modelscope(hub_data: HubId, config: str, split: str) -> Any:
    """Return a data set of ModelScope, through the optional package `modelscope`."""
    try:
        from modelscope import MsDataset
    except ImportError as error:
        raise missing_client_error(hub_data, "modelscope", "modelscope", error) from error
    options = {"subset_name": config} if config else {}
    if hub_data.revision:
        options["version"] = hub_data.revision
    try:
        loaded = MsDataset.load(hub_data.name, split=split, **options)
        return getattr(loaded, "ds_instance", loaded)  # the data set of the package `datasets` that it holds
    except Exception as error:  # the client's errors share no base
        raise fetch_error(hub_data, config, split, error, "set MODELSCOPE_DOMAIN for a mirror") from error


def missing_client_error(hub_data: HubId, package: str, install: str, error: ImportError) -> DataError:
    """Return the error for a client that is not installed."""
    return DataError(
        f"data {str(hub_data)!r} needs the package {package!r}, which is not installed ({error}):"
        f" pip install {install}. {WITHOUT}"
    )


def fetch_error(hub_data: HubId, config: str, split: str, error: Exception, mirror: str) -> DataError:
    """Return the error for a failed download: the data set, the client's own reason, and how to do without it."""
    options = f"config {config!r}, split {split!r}" if config else f"split {split!r}"
    reason = " ".join(str(error).split())[:600]
    return DataError(
        f"data {str(hub_data)!r} ({options}) could not be fetched:"
        f" {type(error).__name__}: {reason}. {WITHOUT}; {mirror}"
    )


WITHOUT = (
    "Without a network give a file instead: data=file data.path=FILE, a jsonl, json or parquet file of the data set"
    " (the hub's page lists its parquet files)"
)
HUBS: dict[str, Callable[[HubId, str, str], Any]] = {"hf": from_hf, "modelscope": from_modelscope}
