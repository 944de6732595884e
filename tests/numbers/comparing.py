"""Recorded numbers beside those of today: what differs, what is on one side alone, what is gone on purpose."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tests.numbers.renames import Renames


def run_differences(old: Mapping[str, Any], new: Mapping[str, Any], names: Renames) -> Iterator[str]:
    """Give a line for each difference of two runs; metrics are named as they are today."""
    for table in ("metrics", "evaluations"):
        before, after = old[table], new[table]
        if len(before) != len(after):
            yield f"{table}: {len(before)} rows recorded, {len(after)} now"
        for row, (one, other) in enumerate(zip(before, after, strict=False)):
            yield from _rows(f"{table} row {row + 1}", one, other, "metrics", names)
    for name in ("completions", "rollouts", "weights"):
        yield from _rows(name, old[name], new[name], "columns" if name == "rollouts" else "", names)


def component_differences(old: Mapping[str, Any], new: Mapping[str, Any], names: Renames) -> Iterator[str]:
    """Give a line for each output or gradient of a component that differs."""
    yield from _rows("", old, new, "places", names)


def _rows(where: str, old: Mapping[str, Any], new: Mapping[str, Any], table: str, names: Renames) -> Iterator[str]:
    seen = set()
    for name, value in old.items():
        today = _renamed(table, name, names)
        if today is None:
            continue
        seen.add(today)
        label = f"{where} {name}".strip() + (f" (now {today})" if today != name else "")
        if today not in new:
            yield f"{label}: recorded, and not there now"
        elif new[today] != value:
            yield f"{label}: {_shown(value, new[today])}"
    for name in new:
        if name not in seen and not names.is_new("columns" if table == "places" else table, name):
            yield f"{where} {name}: not recorded, and there now".strip()


def _renamed(table: str, name: str, names: Renames) -> str | None:
    if table == "places":  # `metrics/clip_share`, `gradient of logprob`, `advantage`
        start, slash, metric = name.partition("/")
        if slash and start == "metrics":
            today = names.name("metrics", metric)
            return None if today is None else f"{start}/{today}"
        words = name.split(" ")
        today = names.name("columns", words[-1])
        return None if today is None else " ".join([*words[:-1], today])
    return names.name(table, name) if table else name


def _shown(old: Any, new: Any) -> str:
    """Say how two values differ."""
    if isinstance(old, dict) and isinstance(new, dict) and "bytes" in old and "bytes" in new:
        if (old["dtype"], old["shape"]) != (new["dtype"], new["shape"]):
            return f"{old['dtype']} {old['shape']} recorded, {new['dtype']} {new['shape']} now"
        one, other = _array(old), _array(new)
        different = ~((one == other) | (np.isnan(one) & np.isnan(other)))
        most = np.abs(one - other)[different].max()
        return f"{int(different.sum())} of {one.size} entries differ, by at most {most:.3g}"
    if _is_hex(old) and _is_hex(new):
        one, other = float.fromhex(old), float.fromhex(new)
        return f"{one!r} recorded, {other!r} now, {other - one:+.3g}"
    return f"{old} recorded, {new} now"


def _array(bits: Mapping[str, Any]) -> Any:
    kind = bits["dtype"].removeprefix("torch.")
    raw = bytes.fromhex(bits["bytes"])
    return np.frombuffer(raw, dtype=kind if kind != "bfloat16" else np.uint16).astype(np.float64)


def _is_hex(value: Any) -> bool:
    return (
        isinstance(value, str)
        and re.fullmatch(r"-?0x[01]\.[0-9a-f]+p[+-]\d+|-?0x0\.0p\+0|-?inf|nan", value) is not None
    )
