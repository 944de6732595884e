"""Answers read into trees: LaTeX and plain text, by recursive descent, in time linear in the length."""

from __future__ import annotations

import functools
from fractions import Fraction

from rlcore_answers import atoms, lexer, units
from rlcore_answers.cleaning import clean
from rlcore_answers.expressions import Apply, Name, Node, Number, Words, names
from rlcore_answers.latex import (
    CLOSERS,
    DEGREES,
    FRACTIONS,
    OPENERS,
    OVER,
    PRODUCTS,
    RELATION_SIGNS,
    SEPARATORS,
    SET_SIGNS,
    SUMS,
)
from rlcore_answers.lexer import NeedsSympyError, Token, UnreadableError

LONGEST_ANSWER = 2_000  # characters; more is no answer, and bounds the work of everything that follows
DEEPEST_TEXT = 60  # atoms within one another
DEEPEST_TREE = 120  # operations within one another; with the line above it keeps recursion far from Python's limit


@functools.lru_cache(maxsize=4096)
def read(text: str) -> Node:
    """The tree of an answer.

    Raises:
        UnreadableError: it is no answer: empty, too long, unbalanced, or signs in no order that means something.
        NeedsSympyError: it has sums, integrals or limits, which only sympy reads.
    """
    if len(text) > LONGEST_ANSWER:
        raise UnreadableError(f"{len(text)} characters; an answer has at most {LONGEST_ANSWER}")
    cleaned = clean(text)
    if len(cleaned) > 2 * LONGEST_ANSWER:
        raise UnreadableError("too long once its signs are spelled out")
    worded = lexer.time_of(cleaned) or lexer.words_of(cleaned)
    if worded is not None:
        return worded
    node = Reader(lexer.tokens_of(cleaned)).answer()
    node = with_bare_unit(cleaned, node)
    if depth(node) > DEEPEST_TREE:
        raise UnreadableError("too many operations within one another")
    return node


def with_bare_unit(text: str, node: Node) -> Node:
    """The tree of "5 m", which is 5 to a number and 5 times m to an expression; other trees as they are."""
    bare = lexer.BARE_UNIT.fullmatch(text)
    if bare is None or not (isinstance(node, Apply) and node.op == "*"):
        return node
    try:
        before = Reader(lexer.tokens_of(bare["before"])).answer()
    except UnreadableError:  # 3 \\log_2 m
        return node
    return node if names(before) else Apply("bare", (before, node))


class Reader:
    """Reads tokens from left to right, one method per level of precedence."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0
        self.bars = 0  # bars that end something: absolute values that are open, sets before their condition
        self.colons = True  # whether a colon makes a ratio; in a set it may stand before a condition

    @property
    def next(self) -> Token:
        """The token that stands next."""
        return self.tokens[self.place]

    def take(self) -> Token:
        """The next token, passed."""
        token = self.tokens[self.place]
        self.place += token.kind != "end"
        return token

    def takes(self, text: str) -> bool:
        """Whether the next token is this one; it is passed if so."""
        found = self.next.kind not in ("text", "end") and self.next.text == text
        self.place += found
        return found

    def expect(self, text: str) -> None:
        """Pass this token. Raises UnreadableError if another stands there."""
        if not self.takes(text):
            raise UnreadableError(f"{text!r} expected, {self.next.text!r} found")

    def answer(self) -> Node:
        """The whole answer."""
        node = self.items()
        if self.next.kind != "end":
            raise UnreadableError(f"{self.next.text!r} is one too many")
        return node

    def items(self) -> Node:
        """Clauses with commas, "and" or "or" between them; one alone is no list."""
        parts, between = [self.clause()], set()
        while (self.next.kind != "text" and self.next.text in SEPARATORS) or units.in_parts(self, parts[-1]):
            between.add(SEPARATORS[self.take().text] if self.next.kind != "number" else "and")
            while self.next.kind != "text" and self.next.text in SEPARATORS:  # "1, and 2"
                between.add(SEPARATORS[self.take().text])
            parts.append(self.clause())
        if len(parts) == 1:
            return parts[0]
        return Apply("or" if "or" in between else "and" if between == {"and"} else "list", tuple(parts))

    def clause(self) -> Node:
        """Sums with relations between them; a chain keeps every one: a < x < b is ("chain", a, <, x, <, b)."""
        parts: list[Node] = [self.sets()]
        while self.next.kind != "text" and self.next.text in RELATION_SIGNS:
            sign = RELATION_SIGNS[self.take().text]
            parts += [Words(sign), self.sets()]
        if len(parts) == 1:
            return parts[0]
        return Apply("chain", tuple(parts))

    def sets(self) -> Node:
        """Ratios with set operations between them, from left to right."""
        node = self.ratio()
        while self.next.text in SET_SIGNS:
            node = Apply(SET_SIGNS[self.take().text], (node, self.ratio()))
        return node

    def ratio(self) -> Node:
        """Sums with colons between them."""
        parts = [self.sum()]
        while self.colons and self.takes(":"):
            parts.append(self.sum())
        return parts[0] if len(parts) == 1 else Apply("ratio", tuple(parts))

    def sum(self) -> Node:
        """Products added and subtracted."""
        parts: list[Node] = []
        while True:
            sign = SUMS[self.take().text] if self.next.text in SUMS and self.next.kind != "text" else "+"
            part = self.signed() if self.next.text in SUMS else self.product()
            parts.append(part if sign == "+" else Apply(sign, (part,)))
            if self.next.kind == "text" or self.next.text not in SUMS:
                return parts[0] if len(parts) == 1 else Apply("+", tuple(parts))

    def signed(self) -> Node:
        """A factor behind further signs."""
        signs = []
        while self.next.text in SUMS:
            signs.append(SUMS[self.take().text])
        node = self.factor()
        for sign in reversed(signs):
            node = node if sign == "+" else Apply(sign, (node,))
        return node

    def product(self) -> Node:
        """Factors multiplied and divided, from left to right, a multiplication sign left out being one."""
        node = self.factor()
        while True:
            if self.next.kind not in ("text", "end") and self.next.text in PRODUCTS:
                op = PRODUCTS[self.take().text]
                right = self.signed() if self.next.text in SUMS else self.factor()
                node = times(node, right) if op == "*" else Apply(op, (node, right))
            elif self.next.kind in ("text", "unit"):
                node = units.with_unit(self, node)
            elif self.takes("%") or self.takes("\\%"):
                node = Apply("percent", (node,))
            elif self.begins_factor() and not units.in_parts(self, node):
                node = self.beside(node)
            else:
                return node

    def beside(self, node: Node) -> Node:
        """A factor with another right behind it: a product, or a mixed number."""
        whole = isinstance(node, Number) and not node.decimal and node.value.denominator == 1
        if self.next.kind == "number":
            last = node.args[-1] if isinstance(node, Apply) and node.op == "*" else node
            if isinstance(last, Apply) and last.op in ("!", "!!"):  # 2!3!
                return times(node, self.factor())
            if not whole:
                raise UnreadableError("two numbers beside one another")
            above = self.atom()
            self.expect("/")
            right: Node = Apply("/", (above, self.atom()))
            if not is_proper(right):
                raise UnreadableError("two numbers beside one another")
        else:
            is_fraction = self.next.text in FRACTIONS
            right = self.factor()
            if units.is_unit(right):
                return Apply("unit", (node, Words(lexer.spelled(right))))
            if not (whole and is_fraction):
                return times(node, right)
        return Apply("+" if is_proper(right) else "*", (node, right))

    def begins_factor(self) -> bool:
        """Whether the next token can begin a factor."""
        token = self.next
        if token.kind in ("number", "name", "function", "environment"):
            return True
        if token.kind != "symbol":
            return False
        if token.text == "|":
            return not self.bars
        if token.text in CLOSERS or token.text in SEPARATORS or token.text in RELATION_SIGNS:
            return False
        return token.text in OPENERS or (
            token.text.startswith("\\")
            and token.text not in SET_SIGNS
            and token.text not in SUMS
            and token.text not in OVER
            and token.text not in ("\\\\", "\\end", "\\%", "\\pmod", "\\mod")
        )

    def factor(self) -> Node:
        """An atom with what stands behind it: powers, indices, factorials, degrees."""
        node = self.atom()
        while True:
            token = self.next
            if token.kind in ("text", "end"):
                return node
            if token.text == "^":
                self.take()
                node = self.raised(node)
            elif token.text == "_":
                self.take()
                node = lexer.indexed(node, self.argument())
            elif token.text == "!":
                self.take()
                node = Apply("!!" if self.takes("!") else "!", (node,))
            elif token.text == "'" and isinstance(node, Name):
                self.take()
                node = Name(node.name + "'")
            elif token.text == "'" and isinstance(node, Number):  # feet, or minutes
                self.take()
                node = Apply("unit", (node, Words("'")))
            elif token.text in DEGREES:
                self.take()
                node = Apply("degree", (node,))
            elif token.text in ("\\pmod", "\\mod"):
                self.take()
                node = Apply("pmod", (node, self.argument()))
            else:
                return node

    def raised(self, node: Node) -> Node:
        """A base and the exponent that stands next; a raised circle is a degree, a raised prime belongs to the name."""
        if self.next.text in DEGREES:
            self.take()
            return Apply("degree", (node,))
        if self.next.text == "{" and self.tokens[self.place + 1].text in DEGREES:
            self.place += 2
            self.expect("}")
            return Apply("degree", (node,))
        exponents = [self.argument(whole=True)]
        while self.takes("^"):
            exponents.append(self.argument(whole=True))
        while len(exponents) > 1:  # 2^3^2 is 2^(3^2)
            exponent = exponents.pop()
            exponents[-1] = Apply("^", (exponents[-1], exponent))
        if exponents[0] in units.ORDINALS:
            return Apply("unit", (node, exponents[0]))
        return Apply("^", (node, exponents[0]))

    def argument(self, *, whole: bool = False) -> Node:
        """What a command applies to: a group, or the one sign behind it (`whole`: all digits of a number)."""
        token = self.next
        if token.text in SUMS and whole:
            return self.signed()
        if token.kind == "number" and not whole and len(token.text) > 1 and token.text.isdigit():
            self.tokens[self.place] = Token("number", token.text[1:])
            return Number(Fraction(token.text[0]))
        if token.kind == "text":
            self.take()
            return lexer.text_node(token.text) or lexer.worded(token.text)
        if not self.begins_factor():
            raise UnreadableError(f"{token.text!r} is no argument")
        return self.atom()

    def atom(self) -> Node:
        """The smallest thing: a number, a name, a word, a bracket, a command with its arguments."""
        self.depth += 1
        if self.depth > DEEPEST_TEXT:
            raise UnreadableError("too much within one another")
        node = self.atom_at(self.take())
        self.depth -= 1
        return node

    def atom_at(self, token: Token) -> Node:
        """The atom that begins with a token, which is passed."""
        if token.kind == "number":
            return lexer.numeral(token.text)
        if token.kind == "name":
            return Name(token.text)
        if token.kind == "function":
            return atoms.function(self, token.text)
        if token.kind in ("text", "unit"):
            return lexer.text_node(token.text) or lexer.worded(token.text)
        if token.kind == "environment":
            return atoms.environment(self, token.text)
        if token.text in OPENERS:
            return atoms.bracket(self, token.text)
        if token.text == "|":
            return atoms.absolute(self)
        if token.text.startswith("\\"):
            return atoms.command(self, token.text)
        raise UnreadableError(f"{token.text or 'the end'!r} is no beginning of anything")


def times(left: Node, right: Node) -> Node:
    """A product; one of many factors is flat."""
    return Apply("*", (*left.args, right) if isinstance(left, Apply) and left.op == "*" else (left, right))


def depth(node: Node) -> int:
    """How many operations stand within one another."""
    deepest, waiting = 0, [(node, 1)]
    while waiting:
        part, level = waiting.pop()
        deepest = max(deepest, level)
        if isinstance(part, Apply):
            waiting += [(inner, level + 1) for inner in part.args]
    return deepest


def is_proper(node: Node) -> bool:
    """Whether a node is a fraction of whole numbers below one: what a mixed number ends in."""
    if not (isinstance(node, Apply) and node.op == "/"):
        return False
    above, below = node.args
    if not (isinstance(above, Number) and isinstance(below, Number)):
        return False
    return not above.decimal and not below.decimal and above.value < below.value


def readable(text: str) -> bool:
    """Whether an answer can be read, by us or perhaps by sympy."""
    try:
        read(text)
    except NeedsSympyError:
        return True
    except UnreadableError:
        return False
    return True
