"""One prompt, one completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlcore.protocols import Message, TurnEnvironment


class SingleTurn(TurnEnvironment):
    """An environment that puts a row's prompt to the policy and never answers back."""

    turns = 1

    def begin(self, row: Mapping[str, Any]) -> str | Sequence[Message]:
        """Return the row's prompt: text or messages."""
        prompt: str | Sequence[Message] = row["prompt"]
        return prompt

    def reply(self, row: Mapping[str, Any], turns: Sequence[str]) -> None:
        """Return None: the session ends with the policy's first turn."""
        return
