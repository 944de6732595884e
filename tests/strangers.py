"""Packages of strangers, known to Python and to the registry for a while, without pip."""

import contextlib
import importlib
import sys
import tomllib
from pathlib import Path

from rlcore.registry import registry


def metadata(folder):
    """Write what `pip install` would leave of a package's `pyproject.toml`: its name, version and entry points."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = "".join(f"{name} = {target}\n" for name, target in project["entry-points"]["rlcore"].items())
    (info / "entry_points.txt").write_text(f"[rlcore]\n{points}")


@contextlib.contextmanager
def installed(*folders: Path):
    """Let Python import packages from these folders, and the registry find their entry points, within a block."""
    modules, places = set(sys.modules), list(sys.path)
    for folder in folders:
        metadata(folder)
    sys.path[:0] = map(str, folders)
    importlib.invalidate_caches()
    registry.cache_clear()
    try:
        yield
    finally:
        sys.path[:] = places
        for name in set(sys.modules) - modules:
            if any(Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(f) for f in folders):
                del sys.modules[name]
        importlib.invalidate_caches()
        registry.cache_clear()
