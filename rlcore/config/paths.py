"""Places in a resolved configuration, absolute: its file is run again from any folder."""

from __future__ import annotations

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
    if file.endswith(".py") and (found := _place(file)):
        return f"{found}{colon}{attribute}"
    if path == ("eval", "data") and not Path(tree).suffix:
        return tree  # a split, whatever lies beside it
    if path == ("start_from",):
        run, at, step = tree.rpartition("@")
        if at and step.isdecimal() and (found := _place(run)):
            return f"{found}@{step}"
    role = path[:1] == ("roles",) and path[-1:] == ("model",)
    named = role or path in FILES or path[-1:] == ("path",)
    return (_place(tree) if named else "") or tree


def _place(text: str) -> str:
    """Return the absolute path of what is there, nothing for any other text. A link stays what it is called."""
    try:
        place = Path(text).expanduser()
        return str(place.absolute()) if place.exists() else ""
    except (OSError, RuntimeError, ValueError):  # too long, as a whole chat template; no such user; NUL
        return ""
