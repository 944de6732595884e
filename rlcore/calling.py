"""Calling components: an exception becomes a ComponentError that names the component, the node and the line."""

from __future__ import annotations

import contextlib
import inspect
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from rlcore.component import Component, name_of, prepared, source_of
from rlcore.errors import ComponentError, GraphError, RLCoreError


def call(
    component: Component, columns: Mapping[str, Any], *, place: str, renamed: Mapping[str, str] | None = None
) -> Any:
    """Call a component with the columns that it names; `place` is where, for messages: "node 'advantage'".

    Raises GraphError for a column that is not there, ComponentError for what the component raises.
    """
    try:
        ready = prepared(component, columns, renamed=renamed)
    except KeyError as error:
        raise GraphError(f"{place} reads {error.args[0]!r}, which this batch does not have") from error
    with guarded(component, place):
        return ready()


@contextlib.contextmanager
def guarded(component: Component, place: str) -> Iterator[None]:
    """Turn what a component raises into a ComponentError; errors of rlcore and an interrupt pass.

    SystemExit too: a component that calls sys.exit would otherwise end the program as if all were well.
    """
    try:
        yield
    except RLCoreError:
        raise
    except (Exception, SystemExit) as error:
        message = f": {error}" if str(error) else ""
        raise ComponentError(
            f"{place}: {name_of(component)} failed at {_where(component, error)} with {type(error).__name__}{message}"
        ) from error


def _where(component: Component, error: BaseException) -> str:
    """Return file:line of the innermost frame in the component's own file, or of the innermost there is."""
    frames = traceback.extract_tb(error.__traceback__)
    try:
        own = inspect.getfile(source_of(component))
    except (TypeError, OSError):
        own = ""
    frame = next((f for f in reversed(frames) if f.filename == own), frames[-1])
    return f"{frame.filename}:{frame.lineno}"
