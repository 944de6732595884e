"""Hydra's global state, used for a moment and left as it was: whoever uses Hydra around this sees no change."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.version import VersionBase

_lock = threading.RLock()  # the state belongs to the process
_kept: list[Any] = []
# From 1.4 on there is no other base, and naming one warns.
_BASE: dict[str, Any] = {"version_base": "1.3"} if hydra.__version__.startswith("1.3") else {}


@contextmanager
def own_version() -> Iterator[None]:
    """Let Hydra's grammar follow the rules of 1.3."""
    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        version = VersionBase.instance()
        before = version.version_base
        if _BASE:
            hydra.version.setbase("1.3")
        try:
            yield
        finally:
            version.version_base = before


@contextmanager
def own_hydra() -> Iterator[Any]:
    """Give a Hydra that knows no folder and no caller, the same at every call."""
    with own_version():
        state = GlobalHydra.instance()
        before = state.hydra
        state.clear()
        try:
            if not _kept:
                hydra.initialize(config_path=None, job_name="rlcore", **_BASE)
                _kept.append(state.hydra)
            state.hydra = _kept[0]
            yield _kept[0]
        finally:
            state.hydra = before
