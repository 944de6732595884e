"""Data sets from the two hubs, through the hubs' own clients, which keep their own cache and know their mirrors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rlcore.data import native
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


def hub_id(path: str, *, revision: str = "") -> HubId:
    """Return the data set that a path names. Raises DataError for any other path, or for two different revisions."""
    hub, colon, rest = path.partition(":")
    name, _, own = rest.partition("@")
    if not colon or hub not in HUBS or name.count("/") != 1 or name.startswith("/") or name.endswith("/"):
        ways = ", ".join(f"{known}:OWNER/NAME" for known in HUBS)
        raise DataError(f"data.path {path!r} names no data set of a hub; write {ways}.{nearest(hub, HUBS)}")
    if own and revision and own != revision:
        raise DataError(f"data.path {path!r} and data.revision={revision!r} are two revisions; give one")
    return HubId(hub, name, own or revision)


class HubRows:
    """The rows of a fetched data set: gone through, and then asked for one by one. Images stay bytes."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def scan(self) -> Iterator[dict[str, Any]]:
        """Yield every row in order, with native values."""
        for row in self._dataset:
            yield {str(name): native(value, drop_none=True) for name, value in row.items()}

    def get(self, index: int) -> dict[str, Any]:
        """Return one row."""
        return {str(name): native(value, drop_none=True) for name, value in self._dataset[index].items()}


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
        dataset = datasets.load_dataset(hub_data.name, config or None, split=split, revision=hub_data.revision or None)
    except Exception as error:  # the client's errors share no base
        raise fetch_error(hub_data, config, split, error, "set HF_ENDPOINT for a mirror") from error
    for column, feature in dataset.features.items():
        kept = undecoded(feature)
        if kept is not feature:
            dataset = dataset.cast_column(column, kept)
    return dataset


def undecoded(feature: Any) -> Any:
    """Return the same feature with images, audio and video as bytes; what holds none is given back itself."""
    if hasattr(feature, "decode") and hasattr(feature, "decode_example"):
        return type(feature)(decode=False)
    inner = getattr(feature, "feature", None)
    if inner is not None and (kept := undecoded(inner)) is not inner:
        return type(feature)(kept)
    return feature


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
        return MsDataset.load(hub_data.name, split=split, **options)
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
