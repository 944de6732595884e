"""What an object holds of one process alone, such as threads, sockets and loaded models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ProcessState:
    """An object whose attributes with a leading underscore stay behind when it is pickled, and begin anew there.

    `_begin` sets them; a subclass calls it at the end of its `__init__`.
    """

    def _begin(self) -> None:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()
