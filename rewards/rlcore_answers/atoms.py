"""The smallest things of an answer that have an inside: brackets, functions, commands, matrices."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from rlcore_answers import lexer
from rlcore_answers.expressions import Apply, Name, Node, Number
from rlcore_answers.latex import (
    BINOMIALS,
    CONDITIONS,
    ENVIRONMENTS,
    FRACTIONS,
    MARKS,
    NUMBER_SETS,
    OPENERS,
    OVER,
    SAME_MARK,
    SILENT,
    SPECIAL,
    STYLES,
    SYMPY_ONLY,
)
from rlcore_answers.lexer import FUNCTIONS, NeedsSympyError, UnreadableError

if TYPE_CHECKING:
    from rlcore_answers.parser import Reader


def absolute(reader: Reader) -> Node:
    """An absolute value, its first bar passed."""
    reader.bars += 1
    node = reader.items()
    reader.expect("|")
    reader.bars -= 1
    return Apply("abs", (node,))


def bracket(reader: Reader, opener: str) -> Node:
    """A group, a tuple, an interval, a set or a rounding, its opening bracket passed."""
    is_set = opener == "\\{"
    outside, reader.bars, reader.colons = (reader.bars, reader.colons), int(is_set), not is_set
    if opener in ("\\{", "(", "[") and reader.takes(OPENERS[opener]):
        node: Node = Apply("set" if is_set else f"{opener},{OPENERS[opener]}", ())
    else:
        node = reader.items()
        if opener == "{" and reader.next.text in OVER:  # {1 \over 2}
            node = Apply(OVER[reader.take().text], (node, reader.items()))
        if is_set and (reader.takes("|") or reader.takes(":")):  # the set of all x with a condition
            reader.bars = 0
            node = reader.items()
        node = closed(node, opener, reader.take().text)
    reader.bars, reader.colons = outside
    return node


def closed(node: Node, opener: str, closer: str) -> Node:
    """What a pair of brackets makes of what is in them."""
    many = isinstance(node, Apply) and node.op == "list"
    parts = node.args if many and isinstance(node, Apply) else (node,)
    if opener in ("(", "[") and many and closer in (")", "]"):
        return Apply(f"{opener},{closer}", parts)
    if closer != OPENERS[opener]:
        raise UnreadableError(f"{opener!r} is closed by {closer!r}")
    if opener == "\\{":
        is_condition = isinstance(node, Apply) and node.op in ("chain", "and", "or")
        return node if is_condition else Apply("set", parts)
    if opener == "\\lfloor":
        return Apply("floor", (node,))
    if opener == "\\lceil":
        return Apply("ceil", (node,))
    if not many:
        return node
    return Apply("(,)" if opener == "\\langle" else "set", parts)


def function(reader: Reader, name: str) -> Node:
    """A function with its power, index and argument, its name passed."""
    power: Node | None = None
    base: Node | None = None
    while reader.next.text in ("^", "_"):
        if reader.take().text == "^":
            power = reader.argument(whole=True)
        else:
            base = reader.argument(whole=True)
    if power == Apply("neg", (Number(Fraction(1)),)) and f"a{name}" in FUNCTIONS.values():
        name, power = f"a{name}", None
    if reader.next.text in ("(", "[", "{", "|"):
        inner = reader.atom()
    else:
        inner = reader.factor()
        # sin 2x is the sine of 2x, sin x cos x a product of two.
        while reader.next.kind in ("number", "name") or reader.next.text in FRACTIONS:
            inner = reader.beside(inner)
    if name in lexer.ANGLES:
        inner = lexer.in_radians(inner)
    arguments = inner.args if isinstance(inner, Apply) and inner.op in ("(,)", "list", "set") else (inner,)
    node = Apply(name, arguments if base is None else (*arguments, base))
    return node if power is None else Apply("^", (node, power))


def command(reader: Reader, name: str) -> Node:
    """A LaTeX command with its arguments, its name passed."""
    if name in FRACTIONS:
        return fraction(reader.argument(), reader.argument())
    if name == "\\sqrt":
        index: Node = Number(Fraction(2))
        if reader.takes("["):
            index = reader.sum()
            reader.expect("]")
        return Apply("root", (reader.argument(whole=True), index))
    if name in BINOMIALS:
        return Apply("binom", (reader.argument(), reader.argument()))
    if name in SPECIAL:
        return SPECIAL[name]
    if name in STYLES:
        return reader.argument()
    if name in SILENT:
        return reader.factor()
    if name == "\\mathbb":
        letter = reader.argument()
        return Name(NUMBER_SETS.get(letter.name, letter.name)) if isinstance(letter, Name) else letter
    if name in MARKS:
        return lexer.marked(SAME_MARK.get(name, name), reader.argument())
    if name in SYMPY_ONLY:
        raise NeedsSympyError(f"{name} is left to sympy")
    if name == "\\ell":
        return Name("l")
    raise UnreadableError(f"unknown command {name}")


def fraction(above: Node, below: Node) -> Node:
    """A fraction; dy/dx is a name of its own, d/dx of something is left to sympy."""
    parts = below.args if isinstance(below, Apply) and below.op == "*" else ()
    if len(parts) == 2 and parts[0] == Name("d") and isinstance(parts[1], Name):
        base = above.args[0] if isinstance(above, Apply) and above.op in ("*", "^") else above
        if base == Name("d"):
            if isinstance(above, Apply) and above.op == "*" and len(above.args) == 2:
                return Name(f"d{lexer.spelled(above.args[1])}/d{parts[1].name}")
            raise NeedsSympyError("derivatives are left to sympy")
    return Apply("/", (above, below))


def environment(reader: Reader, kind: str) -> Node:
    """A matrix, or a value by cases, its beginning passed."""
    if kind not in ENVIRONMENTS:
        raise UnreadableError(f"unknown environment {kind!r}")
    rows: list[list[Node]] = [[]]
    while reader.next.kind != "ending":
        if reader.next.kind == "text" and reader.next.text.lower() in CONDITIONS:
            reader.take()
        rows[-1].append(reader.clause())
        if kind == "cases" and reader.next.text in (",", ";"):  # "x, & x > 0"
            reader.take()
        if reader.takes("\\\\"):
            rows.append([])
        elif not reader.takes("&") and reader.next.kind != "ending":
            raise UnreadableError("a matrix whose entries are not told apart")
    if reader.take().text != kind:
        raise UnreadableError("an environment closed by another")
    kept = [Apply("row", tuple(row)) for row in rows if row]
    if not kept or len({len(row.args) for row in kept}) != 1:
        raise UnreadableError("a matrix with rows of different lengths")
    if len(kept[0].args) == 1 and (kind == "cases" or (kind == "array" and len(kept) == 1)):
        entries = tuple(row.args[0] for row in kept)
        return entries[0] if len(entries) == 1 else Apply("list", entries)  # a system of equations
    return Apply({"vmatrix": "det", "cases": "cases"}.get(kind, "matrix"), tuple(kept))
