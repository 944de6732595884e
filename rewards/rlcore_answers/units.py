"""Units behind numbers, and the words there that are more than a unit."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from rlcore_answers import lexer
from rlcore_answers.expressions import Apply, Node, Number, Words, walk
from rlcore_answers.lexer import UNIT_LETTERS, Token

if TYPE_CHECKING:
    from rlcore_answers.parser import Reader

ORDINALS = tuple(Words(ending) for ending in ("st", "nd", "rd", "th"))
SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
"""Words behind a number that stand for powers of ten."""
JOINING = frozenset({"or", "and", "to", "plus", "minus", "not", "than"})
"""Words behind a number that no unit begins with: "3 or more" is not 3."""


def in_parts(reader: Reader, node: Node) -> bool:
    """Whether a quantity goes on in a smaller unit: 6 feet 2 inches."""
    if not (reader.next.kind == "number" and isinstance(node, Apply) and node.op in ("unit", "degree")):
        return False
    behind = reader.tokens[reader.place + 1]
    return isinstance(node.args[0], Number) and (behind.kind in ("text", "unit") or behind.text == "'")


def with_unit(reader: Reader, node: Node) -> Node:
    """What stands before a unit, with it: "5 cm", "5 m/s", "5 square feet"."""
    parts: list[str] = []
    while True:
        if reader.next.kind in ("text", "unit"):
            parts += reader.take().text.split()
        elif reader.next.text in ("/", "*", "\\cdot") and begins_unit(reader.tokens[reader.place + 1]):
            parts += [reader.take().text, reader.take().text]
        else:
            break
        if reader.takes("^"):
            parts.append(f"^{lexer.spelled(reader.argument(whole=True))}")
    if parts and parts[0].lower() in SCALES:
        node = Apply("*", (node, Number(Fraction(10 ** SCALES[parts.pop(0).lower()]))))
    if parts and reader.next.kind == "number" and parts[-1].lower() == "and":
        parts.pop()  # "2 hours and 30 minutes"
    if not parts:
        return node
    return Apply("said" if parts[0].lower() in JOINING else "unit", (node, lexer.worded(" ".join(parts))))


def begins_unit(token: Token) -> bool:
    """Whether a token behind a stroke or a dot goes on with the unit before it."""
    return token.kind in ("text", "unit") or (token.kind == "name" and token.text in UNIT_LETTERS)


def is_unit(node: Node) -> bool:
    """Whether a factor can only be a unit: words, or a fraction with words in it and no numbers."""
    if isinstance(node, Words):
        return True
    parts = tuple(walk(node)) if isinstance(node, Apply) and node.op == "/" else ()
    return any(isinstance(part, Words) for part in parts) and not any(isinstance(part, Number) for part in parts)
