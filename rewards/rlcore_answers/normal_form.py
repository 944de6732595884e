"""Trees made ready to be compared: units, per cent and plus-minus resolved, labels told apart from values."""

from __future__ import annotations

from fractions import Fraction

from rlcore_answers.expressions import CONSTANTS, LISTS, Apply, Expression, Name, Number, Words, has, names, rewrite
from rlcore_answers.parser import to_text

FUNCTION_NAMES = frozenset("fghpqFGHPQCEN")
HOLDERS = LISTS | {"chain", "set", "(,)", "[,]", "[,)", "(,]", "cup", "cap", "minus", "matrix", "row", "det", "ratio",
                   "cases"}  # fmt: skip
"""Operations whose parts are answers of their own rather than parts of one number."""


def normalize(node: Expression, *, percent: str, units: str) -> Expression:
    """Return the tree in which one answer has one form.

    Per cent and units are dropped or resolved as the options say; a part with plus-minus becomes a list of two; lists
    in lists are one; a chain of equations is its first and last side, or a value if its first side has no variable;
    equations of one variable with several values are one equation with a list.
    """

    def rounded(part: Apply) -> Expression:
        if part.op == "chain" and has(part, "unit", "degree", "percent"):  # 2 hours = 120 minutes
            return Apply("chain", tuple(Words("~") if piece == Words("=") else piece for piece in part.args))
        return part

    def plain(part: Apply) -> Expression:
        if part.op == "percent":
            return part.args[0] if percent == "dropped" else Apply("/", (part.args[0], Number(Fraction(100))))
        if part.op == "unit" and units == "dropped":
            return part.args[0]
        if part.op == "degree":
            return part.args[0] if units == "dropped" else Apply("unit", (part.args[0], Words("degree")))
        return scale_matrix(part)

    return expand_tuple(normalize_order(rewrite(rewrite(node, rounded), plain)))


def normalize_order(node: Expression) -> Expression:
    """Return the tree with plus-minus, chains and lists in their one form."""
    if not isinstance(node, Apply):
        return node
    if node.op not in HOLDERS:
        if not has(node, "pm", "mp"):
            return node
        return Apply("list", (with_sign(node, "+"), with_sign(node, "-")))
    parts = tuple(normalize_order(part) for part in node.args)
    if node.op == "chain":
        return read_chain(Apply("chain", parts))
    if node.op in LISTS or node.op == "set":
        flat: list[Expression] = []
        for part in parts:
            flat += part.args if isinstance(part, Apply) and part.op == "list" else [part]
        return gather_values(Apply(node.op, tuple(flat)))
    return Apply(node.op, parts)


def with_sign(node: Expression, upper: str) -> Expression:
    """Return the tree with the upper or the lower sign of every plus-minus."""

    def change(part: Apply) -> Expression:
        if part.op not in ("pm", "mp"):
            return part
        return part.args[0] if (part.op == "pm") == (upper == "+") else Apply("neg", part.args)

    return rewrite(node, change)


def read_chain(node: Apply) -> Expression:
    """Return a chain as an equation of two sides, a membership, or the chain of inequalities that it is."""
    sides, signs = node.args[0::2], {sign.text for sign in node.args[1::2] if isinstance(sign, Words)}
    if signs <= {"=", "~"}:
        first, last = sides[0], sides[-1]
        if is_label(first):
            return Apply("=", (first, chain_value(sides[1:], signs)))
        if is_label(last) and not names(first):
            return Apply("=", (last, first))
        if is_value(first) and is_value(last):
            return chain_value(sides, signs)
        return Apply("=", (first, last))
    if signs in ({"in"}, {"mod="}) and len(sides) == 2:
        return Apply(signs.pop(), sides)
    return node


def chain_value(sides: tuple[Expression, ...], signs: set[str]) -> Expression:
    """Return what sides of a chain are worth: all of them ("14/3 = 4.67", "about" if the sign is one of rounding) if
    each is a value, else the last.
    """
    if len(sides) == 1 or not all(is_value(side) for side in sides):
        return sides[-1]
    return Apply("about" if "~" in signs else "same", sides)


def scale_matrix(node: Apply) -> Expression:
    """Return a matrix times a number, or with a sign, as a matrix."""
    above = node.args[: 1 if node.op == "/" else None]
    matrices = [part for part in above if isinstance(part, Apply) and part.op == "matrix"]
    others = Apply("*", tuple(part for part in node.args if part not in matrices))
    if node.op not in ("*", "/", "neg") or len(matrices) != 1 or has(others, "matrix", "row"):
        return node
    (matrix,) = matrices

    def entry(part: Apply) -> Expression:
        return Apply(
            "row",
            tuple(Apply(node.op, tuple(inner if one is matrix else one for one in node.args)) for inner in part.args),
        )

    return Apply("matrix", tuple(entry(row) for row in matrix.args if isinstance(row, Apply)))


def expand_tuple(node: Expression) -> Expression:
    """Return (x, y) = (3, 4) as x = 3, y = 4."""
    label, value = split_label(node)
    if not (isinstance(label, Apply) and isinstance(value, Apply) and label.op == value.op == "(,)"):
        return node
    if len(label.args) != len(value.args):
        return node
    return Apply("list", tuple(Apply("=", pair) for pair in zip(label.args, value.args, strict=True)))


def gather_values(node: Apply) -> Expression:
    """Return a list whose first part is labelled, and whose others have the same label or none, as one equation."""
    first = node.args[0] if node.args else None
    if node.op not in LISTS or not (isinstance(first, Apply) and first.op == "="):
        return node
    label, values = first.args[0], list[Expression]()
    for part in node.args:
        one, value = split_label(part)
        if one not in (None, label) or (isinstance(value, Apply) and value.op in ("=", "chain", "in")):
            return node
        values += value.args if isinstance(value, Apply) and value.op == "list" else [value]
    return Apply("=", (label, Apply("list", tuple(values))))


def split_label(node: Expression) -> tuple[Expression | None, Expression]:
    """Return the label and the value of "x = 3", "f(x) = 2x" or "x in S"; without a label None and the node."""
    if isinstance(node, Apply) and node.op in ("=", "in") and is_label(node.args[0]):
        return node.args[0], node.args[1]
    return None, node


def is_value(node: Expression) -> bool:
    """Return whether a side of an equation is a number without a variable."""
    return not names(node) and not isinstance(node, Words) and not has(node, "set", "list", *HOLDERS)


def is_label(node: Expression) -> bool:
    """Return whether something is a name for a value: x, AB, f(x), f(2), |AB|, (x, y), a word."""
    if isinstance(node, Name | Words):
        return node not in (Name("pi"), Name("infinity"), Name("reals"), Name("..."))
    if not isinstance(node, Apply):
        return False
    if node.op in ("abs", "(,)"):
        return all(is_label(part) for part in node.args) and bool(node.args)
    if node.op == "+":  # m + n = 204; x + y = 5 is a line
        return not names(node) & {"x", "y", "z"} and all(isinstance(part, Name) for part in node.args)
    if node.op == "*":
        first = node.args[0]
        inverse = isinstance(first, Apply) and first.op == "^" and first.args[1] == Apply("neg", (Number(Fraction(1)),))
        head = first.args[0] if inverse and isinstance(first, Apply) else first
        is_function = isinstance(head, Name) and head.name[:1] in FUNCTION_NAMES
        if is_function and len(node.args) == 2:
            argument = node.args[1]
            many = argument.args if isinstance(argument, Apply) and argument.op == "(,)" else (argument,)
            return all(isinstance(part, Name | Number) for part in many)
        return all(isinstance(part, Name) and part.name not in CONSTANTS for part in node.args)
    return False


def labelled_alike(left: Expression, right: Expression) -> bool:
    """Return whether two labels are the same; y is f(x)."""
    if to_text(left) == to_text(right):
        return True
    return any(one == Name("y") and argument(other) == Name("x") for one, other in ((left, right), (right, left)))


def argument(label: Expression) -> Name | None:
    """Return the variable of a label f(x)."""
    if not (isinstance(label, Apply) and label.op == "*" and len(label.args) == 2):
        return None
    head, variable = label.args
    is_function = isinstance(head, Name) and head.name[:1] in FUNCTION_NAMES
    return variable if is_function and isinstance(variable, Name) else None


def rename_variable(left: Expression, right: Expression) -> Expression:
    """Return "f(x) = x + 1" in the variable of the other answer, unless that occurs in it already."""
    (one, value), (two, _) = split_label(left), split_label(right)
    old, new = (argument(label) if label is not None else None for label in (one, two))
    if old is None or new is None or old == new or new.name in names(value):
        return left
    if not (old.name.islower() and new.name.islower()):  # P(A) is not P(B)
        return left
    return Apply("=", tuple(with_name(side, old, new) for side in (one or old, value)))


def with_name(node: Expression, old: Name, new: Name) -> Expression:
    """Return the tree with one name in the place of another."""
    if isinstance(node, Apply):
        return Apply(node.op, tuple(with_name(part, old, new) for part in node.args))
    return new if node == old else node
