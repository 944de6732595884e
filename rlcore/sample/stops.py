"""Stop strings, found in decoded text as tokens come, whatever way the tokens split them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# A decoder may treat the first token of what it is given in a way of its own (drop a space, half a character).
MARGIN = 8


class StopText:
    """Says whether a completion's newest token completed one of its stop strings."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._pieces: list[str] | None = None
        self._ending: dict[tuple[str, ...], frozenset[int]] = {}

    def completed(self, stops: tuple[str, ...], tokens: Sequence[int]) -> bool:
        """Whether the text of `tokens` (a completion so far, not empty) holds a stop string that its last token ended.

        Special tokens count as the text that they stand for. Half a character has no text yet.
        """
        if tokens[-1] not in self._candidates(stops):
            return False
        window = max(len(stop.encode()) for stop in stops) + MARGIN
        text = self._decode([list(tokens[-window:])])[0]
        return any(stop in text for stop in stops)

    def _candidates(self, stops: tuple[str, ...]) -> frozenset[int]:
        """The ids that may end one of these: their text holds its last character, or is part of a character."""
        if stops not in self._ending:
            if self._pieces is None:
                self._pieces = self._decode([[token] for token in range(len(self._tokenizer))])
            ends = {stop[-1] for stop in stops} | {"\ufffd"}
            # A lone token's spaces may be dropped, so any token may end a stop string that ends in one.
            every = any(end.isspace() for end in ends)
            found = (i for i, piece in enumerate(self._pieces) if every or any(end in piece for end in ends))
            self._ending[stops] = frozenset(found)
        return self._ending[stops]

    def _decode(self, sequences: list[list[int]]) -> list[str]:
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        if backend is not None:
            return list(backend.decode_batch(sequences, skip_special_tokens=False))
        how = dict(skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return [self._tokenizer.decode(ids, **how) for ids in sequences]
