"""Places in a resolved configuration, absolute: its file is run again from any folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILES = (("model", "source"), ("model", "chat_template"), ("eval", "data"), ("start_from",), ("replay",))
"""Settings that may name a file or folder; beside them stand the options called `path` of any part."""


def anchored(tree: Any, path: tuple[str, ...] = ()) -> Any:
    """Return a tree in which what names a file or folder that is there is absolute: `mine.py:f`, a part's `path`,
    a model's folder, a run. What is no such place (a registered name, a hub id, a split) stays as it is.
    """
    if isinstance(tree, Mapping):
        return {key: anchored(value, (*path, str(key))) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [anchored(value, path) for value in tree]
    if not isinstance(tree, str) or not tree:
        return tree
    file, colon, attribute = tree.rpartition(":")
    if file.endswith(".py") and os.path.isfile(os.path.expanduser(file)):
        return f"{_absolute(file)}{colon}{attribute}"
    if path == ("eval", "data") and not Path(tree).suffix:
        return tree  # a split, whatever lies beside it
    if path == ("start_from",):
        run, at, step = tree.rpartition("@")
        if at and step.isdecimal() and _is_there(run):
            return f"{_absolute(run)}@{step}"
    return _absolute(tree) if (path in FILES or path[-1:] == ("path",)) and _is_there(tree) else tree


def _is_there(place: str) -> bool:
    # Unlike `Path.exists` it takes any text, such as a whole chat template.
    return os.path.exists(os.path.expanduser(place))


def _absolute(place: str) -> str:
    return os.path.abspath(os.path.expanduser(place))
