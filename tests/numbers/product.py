"""The few calls into rlcore that the recorder makes: its command line, the files of a run, its registered components.

An inner redesign leaves these alone; where it does not, this file is the only one to change.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import safe_open


def command_line(words: Sequence[str]) -> None:
    """Run `rlcore WORDS` in this process. Raises RuntimeError with what it printed if it fails."""
    from rlcore.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(list(words))
        except SystemExit as end:
            status = int(end.code or 0)
    if status:
        raise RuntimeError((err.getvalue() or out.getvalue()).strip())


def metrics_of(folder: Path, file: str = "metrics.jsonl") -> list[dict[str, float]]:
    """Return a row per step of what a run measured, without what clocks made."""
    path = folder / file
    if not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    return [{k: v for k, v in row.items() if k not in ("schema", "measured")} for row in rows]


def weights_of(folder: Path) -> Iterator[tuple[str, Any]]:
    """Give name and tensor of the weights that a run ended with."""
    for path in sorted((folder / "model").glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in sorted(file.keys()):
                yield name, file.get_tensor(name)


def rollouts_of(folder: Path) -> list[dict[str, Any]]:
    """Return a row per sampled completion."""
    path = folder / "rollouts.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def registered(kind: str) -> dict[str, Any]:
    """Return rlcore's own components of a kind by name."""
    from rlcore.registry import get, names

    return {name: get(kind, name) for name in names(kind) if ":" not in name}


def invoke(component: Any, columns: Mapping[str, Any]) -> Any:
    """Return what a component gives on these columns, its options as they are."""
    from rlcore.component import invoke as call
    from rlcore.component import started

    return call(started(component), columns)


def bind(component: Any, **options: Any) -> Any:
    """Return the component with options bound."""
    from rlcore.component import bind as bound

    return bound(component, **options)


def counts(mask: Any, group: Any, width: int) -> Any:
    """Return the counts of an optimizer update, as a reduction reads them."""
    from rlcore.math import Counts

    return Counts.of(mask, group, max_new_tokens=width)
