"""A function out of a user's own file: `path/to/file.py:function`."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from rlcore.errors import ConfigError, nearest


def is_function_path(name: str) -> bool:
    """Whether a component's name means a function in a file rather than a registered one."""
    return name.rpartition(":")[0].endswith(".py")


def load_function(spec: str) -> Callable[..., Any]:
    """The function of `path/to/file.py:function`, the file run once per process and content.

    The module is pickled by value, so a worker on another machine needs no copy of the file.

    Raises:
        ConfigError: not of that form, no such file or function (with the nearest name), a file that fails to import
            (with its own error), or something that cannot be called.
    """
    path, colon, name = spec.rpartition(":")
    if not colon or not path.endswith(".py") or not name.isidentifier():
        raise ConfigError(f"{spec!r} is not of the form path/to/file.py:function")
    file = Path(path).expanduser()
    if not file.is_file():
        siblings = [child.name for child in file.parent.glob("*.py")] if file.parent.is_dir() else []
        raise ConfigError(f"{spec!r}: file {str(file)!r} does not exist.{nearest(file.name, siblings)}")
    module = load_module(file.resolve(), spec)
    function = getattr(module, name, None)
    if function is None:
        own = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise ConfigError(f"{spec!r}: no {name!r} in the file; functions in it: {', '.join(own) or 'none'}.{nearest(name, own)}")
    if not callable(function):
        raise ConfigError(f"{spec!r} is {type(function).__name__}, not a function")
    return function  # type: ignore[no-any-return]  # of a user's module nothing is known


def load_module(file: Path, spec: str) -> ModuleType:
    """The module of a file, under a name made from its path and content, so that two files never share one."""
    import cloudpickle

    digest = hashlib.sha256(str(file).encode() + b"\0" + file.read_bytes()).hexdigest()[:12]
    name = f"rlcore_file_{file.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.spec_from_file_location(name, file)
    if found is None or found.loader is None:
        raise ConfigError(f"{spec!r}: {str(file)!r} cannot be loaded as Python")
    module = importlib.util.module_from_spec(found)
    # Dataclasses and pickling look their module up by name while it is being run.
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except Exception as error:  # a user's file may raise anything
        del sys.modules[name]
        raise ConfigError(f"{spec!r}: the file fails to import: {type(error).__name__}: {error}") from error
    cloudpickle.register_pickle_by_value(module)
    return module
