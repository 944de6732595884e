"""What names became: `{"metrics": {old: new}, "options": {...}, "components": {...}, "columns": {...}}`.

An option is written as on a command line (`limits.when_starved`), a component alone or after its kind
(`loss:clipped`). A key that ends in `*` is a beginning. null: the thing is gone on purpose. `new` lists by table what
has come: `{"new": {"metrics": ["sync/seconds"]}}`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TABLES = ("metrics", "options", "components", "columns")


@dataclass
class Renames:
    """The tables of a renames file; empty without one."""

    tables: dict[str, dict[str, str | None]] = field(default_factory=dict)
    new: dict[str, list[str]] = field(default_factory=dict)
    used: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path | None) -> Renames:
        """Return the tables of a file; tables that are for others (modules, classes) are let be."""
        tree: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
        return cls({name: dict(tree.get(name, {})) for name in TABLES}, dict(tree.get("new", {})))

    def name(self, table: str, old: str) -> str | None:
        """Return the name of today; None if the thing is gone on purpose."""
        entries = self.tables.get(table, {})
        if old in entries:
            self.used.add((table, old))
            return entries[old]
        starts = [key for key in entries if key.endswith("*") and old.startswith(key[:-1])]
        if not starts:
            return old
        longest = max(starts, key=len)
        self.used.add((table, longest))
        value = entries[longest]
        return None if value is None else value.rstrip("*") + old[len(longest) - 1 :]

    def component(self, kind: str, old: str) -> str | None:
        """Return the name of a component of a kind."""
        one = f"{kind}:{old}"
        return self.name("components", one if one in self.tables.get("components", {}) else old)

    def is_new(self, table: str, name: str) -> bool:
        """Tell whether a name is declared as one that has come."""
        return any(
            name == entry or (entry.endswith("*") and name.startswith(entry[:-1])) for entry in self.new.get(table, [])
        )
