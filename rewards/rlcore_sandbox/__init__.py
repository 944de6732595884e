"""Rewards for Python code: run against a row's tests, in a sandbox on this machine or on a service."""

from __future__ import annotations

from typing import Any

from rlcore.hooks import hookimpl


@hookimpl
def register(add: Any) -> None:
    """Register the reward of this package."""
    add.reward("code", f"{__name__}.reward:PythonCode")
