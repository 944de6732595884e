"""Imports of optional packages: where one is missing, the error says which extra of rlcore to install."""

from __future__ import annotations

import importlib
from typing import Any

from rlcore.errors import ConfigError


def require(package: str, *, extra: str, purpose: str) -> Any:
    """Return an imported package of one of rlcore's extras.

    Raises ConfigError naming what needs it (`purpose`), why it cannot be imported, and the command that installs it.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ConfigError(
            f'{purpose} needs the package {package}, which cannot be imported ({error}): pip install "rlcore[{extra}]"'
        ) from error
