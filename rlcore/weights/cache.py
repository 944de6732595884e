"""Where made or fetched files are kept, and how a folder comes to be there whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


def cache_folder() -> Path:
    """Return the folder for files that many runs share: `RLCORE_CACHE`, else `~/.cache/rlcore`. Not created."""
    return Path(os.environ.get("RLCORE_CACHE") or Path.home() / ".cache" / "rlcore").expanduser()


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside `target` to write into; it becomes `target` when the block ends without an error.

    Nobody ever sees half of it: it is renamed in one step, and removed if the block raises. If another process has
    finished the same folder in the meantime, theirs stays and ours is dropped. What the block raises is raised.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.parent / f".{target.name}.{uuid4().hex}"
    aside.mkdir()
    try:
        yield aside
        if not target.exists():
            try:
                aside.rename(target)
            except OSError:
                # Another process may have made it since the line above; a rename never mixes the two.
                if not target.is_dir():
                    raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
