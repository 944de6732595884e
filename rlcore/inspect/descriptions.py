"""Components in words: the formula and the summary of a docstring, and a value as a configuration writes it."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any


def formula_of(component: Any) -> str:
    """Return the indented lines of a component's docstring, or of its module's: its formula; empty without any."""
    from rlcore.component import source_of

    source = source_of(component)
    for text in (inspect.getdoc(source), inspect.getdoc(inspect.getmodule(source))):
        rows = [row for row in (text or "").splitlines() if row.startswith("  ")]
        if rows:
            return textwrap.dedent("\n".join(rows))
    return ""


def summary_of(component: Any) -> str:
    """Return the first sentence of a component's docstring."""
    from rlcore.component import source_of

    first = " ".join((inspect.getdoc(source_of(component)) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[^.]\.) (?=[A-Z])", first)[0]


def value_text(value: Any) -> str:
    """Return a value as a configuration writes it."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return repr(value) if isinstance(value, str) else str(value)
