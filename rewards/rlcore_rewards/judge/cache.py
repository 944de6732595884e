"""A cache of the judge's answers by request, in memory or in a folder."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

FILE = "judge.sqlite"


def cache_key(request: Any) -> str:
    """Return the SHA-256 of what is sent: model, messages and parameters."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


class AnswerCache:
    """Keeps the newest `entries` answers by key. Runs may share a folder; without one it ends with the process.

    For one caller at a time, whatever its thread.
    """

    def __init__(self, folder: Path | None, entries: int) -> None:
        self.entries = entries
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        where = ":memory:" if folder is None else folder / FILE
        self._database = sqlite3.connect(where, timeout=30, isolation_level=None, check_same_thread=False)
        if folder is not None:
            # Readers do not wait for a writer; what a power cut takes is asked again.
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=OFF")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS answers"
            " (number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT UNIQUE NOT NULL, answer TEXT NOT NULL)"
        )

    def get(self, key: str) -> str | None:
        """Return the answer of a key, if there is one."""
        row = self._database.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def put(self, key: str, answer: str) -> None:
        """Keep an answer, and drop the oldest beyond the bound."""
        self._database.execute("INSERT OR REPLACE INTO answers (key, answer) VALUES (?, ?)", (key, answer))
        # Numbers only grow, so those that are kept are the last `entries` of them.
        self._database.execute(
            "DELETE FROM answers WHERE number <= (SELECT MAX(number) FROM answers) - ?", (self.entries,)
        )

    def close(self) -> None:
        """Close the database."""
        self._database.close()
