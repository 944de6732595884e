"""JSON lines: one row per step, strict JSON, readable while the run goes on and right after a resume."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.errors import RunError
from rlcore.metrics import is_measured
from rlcore.protocols import Tracker

SCHEMA = 1
"""Version of the rows in `metrics.jsonl` and `rollouts.jsonl`; it rises when a field changes its meaning or goes."""


class JsonLines:
    """A file of JSON rows that each carry `step`, appended to in step order.

    A killed run may leave a torn last line and rows of steps that no checkpoint holds. So the first append drops every
    row of its own step or a later one: a resumed run's file equals that of an uninterrupted one.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._step: int | None = None

    def append(self, step: int, *rows: Mapping[str, Any]) -> None:
        """Write rows of a step, each with `schema` and `step` before its own fields, and flush them to the system.

        Raises:
            RunError: if a row holds something that strict JSON cannot (NaN and infinity among them).
        """
        try:
            lines = [
                json.dumps({"schema": SCHEMA, "step": step, **row}, allow_nan=False, ensure_ascii=False) for row in rows
            ]
        except (TypeError, ValueError) as error:
            raise RunError(f"a row of step {step} is not strict JSON, for {self.path}: {error}") from error
        if self._step is None:
            self._drop_from(step)
        self._step = step
        with self.path.open("a", encoding="utf-8", newline="\n") as file:
            file.write("".join(line + "\n" for line in lines))

    def _drop_from(self, step: int) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            return
        with self.path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            text = file.read()
        kept = "".join(line for line in split_lines(text) if _is_before(line, step))
        if kept != text:
            aside = self.path.with_name(self.path.name + ".tmp")
            aside.write_text(kept, encoding="utf-8", newline="\n")
            aside.replace(self.path)


def split_lines(text: str) -> list[str]:
    """Return the lines of JSON-lines text with their ends; the last one may lack its end.

    Never `str.splitlines`: it also cuts at U+2028, U+2029 and U+0085, which stand as they are inside JSON strings.
    """
    return re.findall(r"[^\n]*\n|[^\n]+", text)


class Jsonl(Tracker):
    """`metrics.jsonl` in the run's folder.

    A row has `schema`, `step` and the metrics by name; those of time and memory are under `measured`, so that
    the rest of two equal runs is equal; a metric that is not finite is left out and named in `not_finite`.
    """

    immediate = True

    def __init__(self, *, file: str = "metrics.jsonl") -> None:
        self.file = file
        self._lines: JsonLines | None = None

    def start(self, *, run: str, project: str, config: Mapping[str, Any], folder: Path) -> None:
        """Choose the file; it is made by the first row."""
        self._lines = JsonLines(Path(folder) / self.file)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write one row."""
        if self._lines is None:
            raise RunError("the jsonl tracker was not started")
        self._lines.append(step, metrics_row(metrics))


def metrics_row(metrics: Mapping[str, float]) -> dict[str, Any]:
    """Return a step's metrics as a row of strict JSON (see `Jsonl`)."""
    finite = {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
    row: dict[str, Any] = {name: value for name, value in finite.items() if not is_measured(name)}
    row["measured"] = {name: value for name, value in finite.items() if is_measured(name)}
    missing = sorted(set(metrics) - set(finite))
    if missing:
        row["not_finite"] = missing
    return row


def _is_before(line: str, step: int) -> bool:
    """Return whether a line is a whole row of an earlier step."""
    if not line.endswith("\n"):
        return False
    try:
        return bool(json.loads(line)["step"] < step)
    except (ValueError, KeyError, TypeError):
        return False
