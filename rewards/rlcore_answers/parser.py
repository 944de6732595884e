r"""Answers parsed into expressions: LaTeX and plain text, by recursive descent, in time linear in the length.

Five sections: the signs and commands that are known; the lexer, which cuts a text into tokens and reads times and plain
words; the parser, which makes an expression of the tokens; its brackets, functions, commands and matrices; its units.
"""

from __future__ import annotations

import functools
import re
from fractions import Fraction
from typing import NamedTuple

from rlcore_answers.cleaning import clean
from rlcore_answers.expressions import Apply, Expression, Name, Number, Words, names, rewrite, walk

# -- signs and commands

RELATION_SIGNS = {
    "=": "=", "<": "<", ">": ">", "<=": "<=", ">=": ">=", "!=": "!=", "\\le": "<=", "\\leq": "<=", "\\leqslant": "<=",
    "\\ge": ">=", "\\geq": ">=", "\\geqslant": ">=", "\\lt": "<", "\\gt": ">", "\\ne": "!=", "\\neq": "!=",
    "\\in": "in", "\\approx": "~", "\\equiv": "mod=",
}  # fmt: skip
SET_SIGNS = {"\\cup": "cup", "\\cap": "cap", "\\setminus": "minus", "\\backslash": "minus"}
SUMS = {"+": "+", "-": "neg", "\\pm": "pm", "\\mp": "mp"}
PRODUCTS = {"*": "*", "/": "/", "\\cdot": "*", "\\times": "*", "\\div": "/", "\\ast": "*"}
SEPARATORS = {",": "list", ";": "list", "and": "and", "or": "or", "\\land": "and", "\\lor": "or", "\\wedge": "and",
              "\\vee": "or"}  # fmt: skip
OPENERS = {"(": ")", "[": "]", "\\{": "\\}", "{": "}", "\\langle": "\\rangle", "\\lfloor": "\\rfloor",
           "\\lceil": "\\rceil"}  # fmt: skip
OVER = {"\\over": "/", "\\choose": "binom", "\\atop": "binom"}
CLOSERS = frozenset(OPENERS.values())
FRACTIONS = frozenset({"\\frac", "\\dfrac", "\\tfrac", "\\cfrac", "\\sfrac", "\\nicefrac"})
BINOMIALS = frozenset({"\\binom", "\\dbinom", "\\tbinom"})
STYLES = frozenset({"\\mathbf", "\\mathit", "\\boldsymbol", "\\bm", "\\mathsf", "\\ensuremath", "\\underline"})
MARKS = frozenset({"\\vec", "\\hat", "\\bar", "\\overline", "\\overrightarrow", "\\widehat", "\\tilde", "\\mathcal",
                   "\\overleftrightarrow", "\\dot"})  # fmt: skip
SAME_MARK = {"\\bar": "\\overline", "\\widehat": "\\hat", "\\overrightarrow": "\\vec"}
SILENT = frozenset({"\\angle", "\\triangle", "\\measuredangle", "\\displaystyle", "\\Box"})
SPECIAL: dict[str, Expression] = {"\\infty": Name("infinity"), "\\emptyset": Apply("set", ()),
                           "\\varnothing": Apply("set", ()),
           "\\ldots": Name("..."), "\\dots": Name("..."), "\\cdots": Name("..."), "\\imath": Name("i")}  # fmt: skip
NUMBER_SETS = {"R": "reals", "Z": "integers", "N": "naturals", "Q": "rationals", "C": "complexes"}
ENVIRONMENTS = frozenset({"pmatrix", "bmatrix", "matrix", "vmatrix", "array", "Bmatrix", "smallmatrix", "cases"})
CONDITIONS = frozenset({"if", "for", "when", "where"})
DEGREES = frozenset({"\\circ", "\\degree"})
SYMPY_ONLY = frozenset({"\\int", "\\sum", "\\prod", "\\lim", "\\iint", "\\oint", "\\partial", "\\nabla"})
"""What is left to sympy: our parser says so, and the comparer asks a worker."""

# -- the lexer


class UnreadableError(ValueError):
    """The text is no answer that can be read."""


class NeedsSympyError(UnreadableError):
    """The answer is mathematics that is not read here: sums, integrals, limits."""


class Token(NamedTuple):
    """A piece of an answer: its kind (number, name, function, text, unit, environment, symbol, end) and its text."""

    kind: str
    text: str


FUNCTIONS = {
    **{name: name for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "ln", "log", "exp")},
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "cot", "sec", "csc")},
    **{f"a{name}": f"a{name}" for name in ("sinh", "cosh", "tanh")},
    **{name: name for name in ("gcd", "lcm", "max", "min", "abs", "floor")},
    "asin": "asin", "acos": "acos", "atan": "atan", "lg": "log", "ceil": "ceil", "ceiling": "ceil",
}  # fmt: skip
ANGLES = frozenset({"sin", "cos", "tan", "cot", "sec", "csc"})
GREEK = frozenset({
    "alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta", "iota", "kappa",
    "lambda", "mu", "nu", "xi", "omicron", "pi", "rho", "varrho", "sigma", "tau", "upsilon", "phi", "varphi", "chi",
    "psi", "omega",
})  # fmt: skip
SPELLED_OUT = {
    "sqrt": "\\sqrt", "inf": "\\infty", "infinity": "\\infty", "oo": "\\infty", "and": "and", "or": "or",
    "percent": "\\%", "mod": "\\mod", "degrees": "\\degree", "degree": "\\degree", "frac": "\\frac", "cup": "\\cup",
}  # fmt: skip
"""Commands that plain text writes without a backslash."""
UNITS = frozenset({
    "mm", "cm", "dm", "km", "nm", "in", "ft", "yd", "mi", "mg", "kg", "lb", "lbs", "oz", "ml", "mL", "cl", "dl",
    "kL", "sec", "secs", "min", "mins", "hr", "hrs", "hz", "Hz", "kHz", "MHz", "Pa", "kPa", "kJ", "kW", "kWh", "mol",
    "rad", "deg", "mph", "kph", "kmh", "am", "pm", "cents", "units", "cubic", "square", "sq", "cu",
})  # fmt: skip
"""Units that may stand right behind a number; longer words are one wherever a space is before them."""
UNIT_LETTERS = frozenset("msghLJNKWVATC")
"""Units of one letter."""
BARE_UNIT = re.compile(r"(?P<before>.*[0-9)}])(?:\s|~|\\[,;:! ])+[msghLJNWV](?:\^(?:[23]|\{[23]\}))?", re.DOTALL)
"""An answer that ends in a unit of one letter, or in a variable."""
FILLERS = frozenset({"is", "of", "to", "as", "at", "by", "on", "so"})
SHORT_WORDS = frozenset({"no", "up", "ok", "on", "off", "yes", "odd", "all"})
REALS = frozenset({"all real numbers", "all reals", "all real values", "real numbers"})
WORD_COMMANDS = r"\\(?:text|textbf|textit|textrm|textsf|texttt|textnormal|mathrm|mbox|hbox|operatorname\*?|emph)"
TEXT = re.compile(WORD_COMMANDS + r"\s*\{([^{}]*)\}")
NUMERAL = r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
TOKEN = re.compile(
    r"(?P<space>(?:\s|~|\\[,;:! ]|\\q?quad(?![A-Za-z])|\\\s)+)"
    r"|(?P<repeating>[0-9]*\.[0-9]*(?:\\(?:overline|dot|bar)\s*(?:\{[0-9]+\}|[0-9])|\([0-9]+\)))"
    rf"|(?P<number>{NUMERAL}(?:[eE][+-]?[0-9]+(?![A-Za-z0-9.]))?)"
    rf"|(?P<text>{WORD_COMMANDS}\s*\{{(?P<content>[^{{}}]*)\}})"
    r"|\\begin\s*\{(?P<environment>[A-Za-z]+\*?)\}(?:\s*\{[lcr|\s]*\})?"
    r"|\\end\s*\{(?P<ending>[A-Za-z]+\*?)\}"
    r"|(?P<command>\\(?:[A-Za-z]+|.))"
    r"|(?P<letters>(?:km|cm|m|ft|mi)/(?:s|sec|min|h|hr)(?![A-Za-z])|[A-Za-z]+)"
    r"|(?P<symbol><=|>=|!=|==|\*\*|.)",
    re.DOTALL,
)
THOUSANDS = re.compile(r"(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|(?: [0-9]{3})+(?![0-9 /.])")
SAME = {"\\lbrace": "\\{", "\\rbrace": "\\}", "\\lbrack": "[", "\\rbrack": "]", "\\vert": "|", "\\lvert": "|",
        "\\rvert": "|", "\\mid": "|", "\\|": "|", "\\Vert": "|", "\\lVert": "|", "\\rVert": "|", "\\colon": ":",
        "\\bmod": "\\mod", "**": "^", "==": "=", "\\prime": "'", "\\newline": "\\\\", "\\setminus": "\\setminus",
        "\\smallsetminus": "\\setminus", "\\lt": "<", "\\gt": ">", "\\percent": "\\%", "\\deg": "\\degree",
        "\\textdegree": "\\degree", "\\union": "\\cup", "\\bigcup": "\\cup", "\\bullet": "\\cdot"}  # fmt: skip
ENDS_OPERAND = frozenset({")", "]", "}", "\\}", "\\%", "%", "!", "\\degree", "\\circ"})
LARGEST_EXPONENT = 4_000  # of ten, in 1e5
LONGEST_NUMERAL = 4_000  # digits; Python refuses to read 4,300

WORDY = re.compile(r"[^\W\d_][\w\s'.,;()/&!?:-]*")
RUN = re.compile(r"[^\W\d_]+")
TIME = re.compile(r"\s*([0-9]{1,2})(?::([0-9]{2}))?[\s,;:!]*([apAP])\.?\s?[mM]\.?\s*")
ARTICLE = re.compile(r"(?:an?|the)\s+(?=\S)")
CHOICE = re.compile(
    r"(?:(?i:option|choice)\s+)?(?:\(([A-J])\)|([A-J])[.)])[.:]?"
    r"(?:(?:\s|~|\\q?quad|\\ )+(?=[0-9A-Za-z]|\\(?:text|d?frac|sqrt))|\s*$)"
    r"|(?i:option|choice)\s+\(?([A-J])\)?\s*$"
)
CHOICES = re.compile(r"[A-H]{3,6}")
LETTER = re.compile(r"\(?\s*([A-Za-z])\s*\)?\s*[.)]?")


def parse_time(text: str) -> Expression | None:
    """Return a time before or after noon, or None."""
    if "m" not in text.lower():
        return None
    found = TIME.fullmatch(TEXT.sub(r" \1 ", text).replace("~", " ").replace("\\", " "))
    if found is None:
        return None
    return Apply("time", (*(Number(Fraction(int(found[k] or 0))) for k in (1, 2)), Words(f"{found[3].lower()}m")))


def parse_words(text: str) -> Expression | None:
    """Return an answer that is words and nothing else ("yes", "no solution", "Ann, Bob"), or None for mathematics.

    A choice with its content behind it ("(B) Paris", "B. 5") is its letter.
    """
    choice = CHOICE.match(TEXT.sub(r"\1 ", text) if text.startswith("\\") else text)
    if choice:
        return Name(choice[choice.lastindex or 1])
    flat = TEXT.sub(r" \1 ", text).replace("\\ ", " ").strip() if "\\" in text else text
    if "\\" in flat or not WORDY.fullmatch(flat):
        return None
    if CHOICES.fullmatch(flat) and len(set(flat)) == len(flat):
        return Apply("*", tuple(Name(letter) for letter in flat))  # as "AB" is
    if flat.casefold() in REALS:
        return Name("reals")
    if not any(is_word(run) for run in RUN.findall(flat)):
        return None
    parts = [plain_words(part) for part in flat.split(",")]
    kept = tuple(part for part in parts if part.text)
    return kept[0] if len(kept) == 1 else Apply("list", kept)


def is_word(run: str) -> bool:
    """Return whether a run of letters can only be a word: no function, and no product of two names."""
    lower = run.lower()
    if lower in SPELLED_OUT or lower in GREEK or run in FUNCTIONS:
        return False
    return len(run) > 2 or lower in SHORT_WORDS


def plain_words(text: str) -> Words:
    """Return words in lower case with single spaces, without signs around them or an article before them."""
    words = " ".join(text.casefold().split()).strip(" .,;:!?'\"()")
    return Words(ARTICLE.sub("", words))


def text_node(content: str) -> Expression | None:
    r"""Return what stands in `\text{}` if it is no word: a number or a letter, in brackets or not."""
    content = content.strip().strip("$").strip()
    letter = LETTER.fullmatch(content)
    if letter:
        return Name(letter[1])
    content = content.replace(",", "")
    return numeral(content) if re.fullmatch(NUMERAL, content) else None


def numeral(text: str) -> Number:
    """Return a numeral, exactly. Raises UnreadableError if it has more digits than any answer."""
    if len(text) > LONGEST_NUMERAL:
        raise UnreadableError(f"a number of {len(text)} digits")
    repeating = re.fullmatch(r"([0-9]*)\.([0-9]*)(?:\\[a-z]+\s*\{?|\()([0-9]+)[})]?", text)
    if repeating:
        whole, fixed, period = repeating.groups()
        value = Fraction(int(whole + fixed + period or "0") - int(whole + fixed or "0"), 1)
        return Number(value / (10 ** len(fixed) * (10 ** len(period) - 1)))
    mantissa, mark, exponent = text.lower().partition("e")
    if mark and abs(int(exponent[:9])) > LARGEST_EXPONENT:
        raise UnreadableError(f"a power of ten as large as {exponent[:20]}")
    if mark or "." in mantissa:
        return Number(Fraction(mantissa) * (Fraction(10) ** int(exponent) if mark else 1), decimal=True)
    return Number(Fraction(int(mantissa)))


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a cleaned answer and an end token. Raises UnreadableError at an unknown character."""
    found: list[Token] = []
    place = depth = 0
    spaced = False
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None:
            raise UnreadableError(f"{text[place]!r} has no meaning")
        kind, piece, place = match.lastgroup or "", match[0], match.end()
        if match["space"]:
            spaced = True
            continue
        if match["number"] and not depth and len(piece) < 4 and piece.isdigit():
            more = THOUSANDS.match(text, place)
            if more and not (found and found[-1].kind == "number"):
                piece, place = re.sub(r"[, ]", "", piece + more[0]), more.end()
        if match["symbol"] or match["command"]:
            depth += (piece in ("(", "[", "\\{")) - (piece in (")", "]", "\\}"))
        found += match_tokens(kind, piece, match, found, spaced=spaced)
        spaced = False
    return [*found, Token("end", "")]


def match_tokens(kind: str, piece: str, match: re.Match[str], before: list[Token], *, spaced: bool) -> list[Token]:
    """Return the tokens of one match."""
    if kind in ("number", "repeating"):
        return [Token("number", piece)]
    if match["environment"]:
        return [Token("environment", match["environment"])]
    if match["ending"]:
        return [Token("ending", match["ending"])]
    if match["text"]:
        return text_tokens(match["content"], before)
    if kind == "command":
        name = piece[1:]
        if name in FUNCTIONS:
            return [Token("function", FUNCTIONS[name])]
        if name.lower() in GREEK:
            return [Token("name", name.removeprefix("var"))]
        return [Token("symbol", SAME.get(piece, piece))]
    if kind == "letters":
        return letter_tokens(piece, before, spaced=spaced)
    if ord(piece[0]) > 127:
        raise UnreadableError(f"{piece!r} has no meaning")
    return [Token("symbol", SAME.get(piece, piece))]


def text_tokens(content: str, before: list[Token]) -> list[Token]:
    r"""Return the tokens of `\text{...}`: a function, a separator, a percent sign, or words."""
    word = content.strip().strip("~").strip()
    if word.lower() in ("and", "or", ",", ", and", ", or", ";"):
        return [Token("symbol", word.lower().split()[-1])]
    if word.lower() in ("percent", "%", "\\%"):
        return [Token("symbol", "\\%")]
    if word in FUNCTIONS and word not in ("min", "sec", "deg"):
        return [Token("function", FUNCTIONS[word])]
    if word in ("", ".", ":"):
        return []
    if word.lower() in ("degrees", "degree"):
        return [Token("symbol", "\\degree")]
    behind = bool(before) and (before[-1].kind in ("number", "name", "text", "unit") or before[-1].text in ENDS_OPERAND)
    if word in ("e", "i"):
        return [Token("name", word)]  # \mathrm{i}
    runs = RUN.findall(word)
    is_mathematics = word[:1].isdigit() or all(len(run) == 1 or run.lower() in ("and", "or") for run in runs)
    if is_mathematics and not (behind and runs):
        return tokenize(word.replace("$", ""))[:-1]  # \text{13}, \text{(A)}, \text{2 or 3}, \text{12 hours}
    return [Token("text", word)]


def letter_tokens(run: str, before: list[Token], *, spaced: bool) -> list[Token]:
    """Return the tokens of a run of letters: a function, a command, a unit, or one name a letter."""
    last = before[-1] if before else Token("end", "")
    behind = last.kind in ("number", "name", "text", "unit") or last.text in ENDS_OPERAND
    if behind and last.kind != "name" and (run in UNITS or (spaced and "/" in run)):
        return [Token("unit", run)]
    if "/" in run:
        return [Token("symbol" if sign == "/" else "name", sign) for sign in run]
    if (run in GREEK and len(run) > 2) or run == "pi":
        return [Token("name", run.removeprefix("var"))]
    if run.lower() in SPELLED_OUT and (len(run) > 2 or run in SPELLED_OUT):
        return [Token("symbol", SPELLED_OUT[run.lower()])]
    if run in FUNCTIONS:
        return [Token("function", FUNCTIONS[run])]
    if behind and ((spaced and (len(run) > 2 or run in FILLERS)) or last.kind == "unit"):
        return [Token("unit", run)]
    for name in ("sqrt", "sin", "cos", "tan", "log", "ln"):
        if run.startswith(name) and len(run) - len(name) <= 2:
            first = Token("symbol", "\\sqrt") if name == "sqrt" else Token("function", name)
            return [first, *(Token("name", letter) for letter in run[len(name) :])]
    return [Token("name", letter) for letter in run]


def to_text(node: Expression) -> str:
    """Return a tree in one line, the same for equal trees."""
    if isinstance(node, Number):
        return str(node.value)
    if isinstance(node, Name):
        return node.name
    if isinstance(node, Words):
        return node.text
    return f"{node.op}({' '.join(to_text(part) for part in node.args)})"


def with_index(node: Expression, index: Expression) -> Expression:
    """Return x_1 as a name of its own, 1011_2 as a text that equals only itself."""
    if isinstance(node, Name):
        return Name(f"{node.name}_{to_text(index)}")
    if isinstance(node, Number | Words):
        return Words(f"{to_text(node)}_{to_text(index)}")
    return Apply("index", (node, index))


def with_mark(mark: str, node: Expression) -> Expression:
    """Return something under an arrow, a bar or a hat: a name of its own; a segment is named by its ends."""
    points = node.args if isinstance(node, Apply) and node.op == "*" else ()
    if mark == "\\overline" and len(points) == 2 and all(isinstance(p, Name) and p.name.isupper() for p in points):
        return node
    return Name(f"{mark} {to_text(node)}")


# -- the parser

LONGEST_ANSWER = 2_000  # characters; more is no answer, and bounds the work of everything that follows
DEEPEST_TEXT = 60  # atoms within one another
DEEPEST_TREE = 120  # operations within one another; with the line above it keeps recursion far from Python's limit


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Return the tree of an answer as it was written: it is cleaned here, and a time or plain words are read first.

    Raises:
        UnreadableError: it is no answer: empty, too long, unbalanced, or signs in no order that means something.
        NeedsSympyError: it has sums, integrals or limits, which only sympy reads.
    """
    if len(text) > LONGEST_ANSWER:
        raise UnreadableError(f"{len(text)} characters; an answer has at most {LONGEST_ANSWER}")
    cleaned = clean(text)
    if len(cleaned) > 2 * LONGEST_ANSWER:
        raise UnreadableError("too long once its signs are spelled out")
    words = parse_time(cleaned) or parse_words(cleaned)
    if words is not None:
        return words
    node = AnswerParser(tokenize(cleaned)).answer()
    node = with_bare_unit(cleaned, node)
    if depth(node) > DEEPEST_TREE:
        raise UnreadableError("too many operations within one another")
    return node


def with_bare_unit(text: str, node: Expression) -> Expression:
    """Return the tree of "5 m", which is 5 to a number and 5 times m to an expression; other trees as they are."""
    bare = BARE_UNIT.fullmatch(text)
    if bare is None or not (isinstance(node, Apply) and node.op == "*"):
        return node
    try:
        before = AnswerParser(tokenize(bare["before"])).answer()
    except UnreadableError:  # 3 \\log_2 m
        return node
    return node if names(before) else Apply("bare", (before, node))


class AnswerParser:
    """Reads tokens from left to right, one method per level of precedence."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0
        self.bars = 0  # bars that end something: absolute values that are open, sets before their condition
        self.colons = True  # whether a colon makes a ratio; in a set it may stand before a condition

    @property
    def next(self) -> Token:
        """Return the token that stands next."""
        return self.tokens[self.place]

    def take(self) -> Token:
        """Return the next token and go on behind it."""
        token = self.tokens[self.place]
        self.place += token.kind != "end"
        return token

    def takes(self, text: str) -> bool:
        """Return whether the next token is this one; it is passed if so."""
        found = self.next.kind not in ("text", "end") and self.next.text == text
        self.place += found
        return found

    def expect(self, text: str) -> None:
        """Pass this token. Raises UnreadableError if another stands there."""
        if not self.takes(text):
            raise UnreadableError(f"{text!r} expected, {self.next.text!r} found")

    def answer(self) -> Expression:
        """Return the whole answer."""
        node = self.items()
        if self.next.kind != "end":
            raise UnreadableError(f"{self.next.text!r} is one too many")
        return node

    def items(self) -> Expression:
        """Return clauses with commas, "and" or "or" between them; one alone is no list."""
        parts, between = [self.clause()], set()
        while (self.next.kind != "text" and self.next.text in SEPARATORS) or continues_quantity(self, parts[-1]):
            between.add(SEPARATORS[self.take().text] if self.next.kind != "number" else "and")
            while self.next.kind != "text" and self.next.text in SEPARATORS:  # "1, and 2"
                between.add(SEPARATORS[self.take().text])
            parts.append(self.clause())
        if len(parts) == 1:
            return parts[0]
        return Apply("or" if "or" in between else "and" if between == {"and"} else "list", tuple(parts))

    def clause(self) -> Expression:
        """Return sums with relations between them; a chain keeps every one: a < x < b is ("chain", a, <, x, <, b)."""
        parts: list[Expression] = [self.sets()]
        while self.next.kind != "text" and self.next.text in RELATION_SIGNS:
            sign = RELATION_SIGNS[self.take().text]
            parts += [Words(sign), self.sets()]
        if len(parts) == 1:
            return parts[0]
        return Apply("chain", tuple(parts))

    def sets(self) -> Expression:
        """Return ratios with set operations between them, from left to right."""
        node = self.ratio()
        while self.next.text in SET_SIGNS:
            node = Apply(SET_SIGNS[self.take().text], (node, self.ratio()))
        return node

    def ratio(self) -> Expression:
        """Return sums with colons between them."""
        parts = [self.sum()]
        while self.colons and self.takes(":"):
            parts.append(self.sum())
        return parts[0] if len(parts) == 1 else Apply("ratio", tuple(parts))

    def sum(self) -> Expression:
        """Return products added and subtracted."""
        parts: list[Expression] = []
        while True:
            sign = SUMS[self.take().text] if self.next.text in SUMS and self.next.kind != "text" else "+"
            part = self.signed() if self.next.text in SUMS else self.product()
            parts.append(part if sign == "+" else Apply(sign, (part,)))
            if self.next.kind == "text" or self.next.text not in SUMS:
                return parts[0] if len(parts) == 1 else Apply("+", tuple(parts))

    def signed(self) -> Expression:
        """Return a factor behind further signs."""
        signs = []
        while self.next.text in SUMS:
            signs.append(SUMS[self.take().text])
        node = self.factor()
        for sign in reversed(signs):
            node = node if sign == "+" else Apply(sign, (node,))
        return node

    def product(self) -> Expression:
        """Return factors multiplied and divided, from left to right, a multiplication sign left out being one."""
        node = self.factor()
        while True:
            if self.next.kind not in ("text", "end") and self.next.text in PRODUCTS:
                op = PRODUCTS[self.take().text]
                right = self.signed() if self.next.text in SUMS else self.factor()
                node = multiply(node, right) if op == "*" else Apply(op, (node, right))
            elif self.next.kind in ("text", "unit"):
                node = with_unit(self, node)
            elif self.takes("%") or self.takes("\\%"):
                node = Apply("percent", (node,))
            elif self.begins_factor() and not continues_quantity(self, node):
                node = self.juxtaposed(node)
            else:
                return node

    def juxtaposed(self, node: Expression) -> Expression:
        """Return a factor with another right behind it: a product, or a mixed number."""
        whole = isinstance(node, Number) and not node.decimal and node.value.denominator == 1
        if self.next.kind == "number":
            last = node.args[-1] if isinstance(node, Apply) and node.op == "*" else node
            if isinstance(last, Apply) and last.op in ("!", "!!"):  # 2!3!
                return multiply(node, self.factor())
            if not whole:
                raise UnreadableError("two numbers beside one another")
            above = self.atom()
            self.expect("/")
            right: Expression = Apply("/", (above, self.atom()))
            if not is_proper(right):
                raise UnreadableError("two numbers beside one another")
        else:
            is_fraction = self.next.text in FRACTIONS
            right = self.factor()
            if is_unit(right):
                return Apply("unit", (node, Words(to_text(right))))
            if not (whole and is_fraction):
                return multiply(node, right)
        return Apply("+" if is_proper(right) else "*", (node, right))

    def begins_factor(self) -> bool:
        """Return whether the next token can begin a factor."""
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

    def factor(self) -> Expression:
        """Return an atom with what stands behind it: powers, indices, factorials, degrees."""
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
                node = with_index(node, self.argument())
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

    def raised(self, node: Expression) -> Expression:
        """Return a base with its exponent; a raised circle is a degree."""
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
        if exponents[0] in ORDINALS:
            return Apply("unit", (node, exponents[0]))
        return Apply("^", (node, exponents[0]))

    def argument(self, *, whole: bool = False) -> Expression:
        """Return what a command applies to: a group, or the one sign behind it (`whole`: all digits of a number)."""
        token = self.next
        if token.text in SUMS and whole:
            return self.signed()
        if token.kind == "number" and not whole and len(token.text) > 1 and token.text.isdigit():
            self.tokens[self.place] = Token("number", token.text[1:])
            return Number(Fraction(token.text[0]))
        if token.kind == "text":
            self.take()
            return text_node(token.text) or plain_words(token.text)
        if not self.begins_factor():
            raise UnreadableError(f"{token.text!r} is no argument")
        return self.atom()

    def atom(self) -> Expression:
        """Return the smallest thing: a number, a name, a word, a bracket, a command with its arguments."""
        self.depth += 1
        if self.depth > DEEPEST_TEXT:
            raise UnreadableError("too much within one another")
        node = self.atom_at(self.take())
        self.depth -= 1
        return node

    def atom_at(self, token: Token) -> Expression:
        """Return the atom that begins with a token, which is passed."""
        if token.kind == "number":
            return numeral(token.text)
        if token.kind == "name":
            return Name(token.text)
        if token.kind == "function":
            return function(self, token.text)
        if token.kind in ("text", "unit"):
            return text_node(token.text) or plain_words(token.text)
        if token.kind == "environment":
            return environment(self, token.text)
        if token.text in OPENERS:
            return bracket(self, token.text)
        if token.text == "|":
            return absolute(self)
        if token.text.startswith("\\"):
            return command(self, token.text)
        raise UnreadableError(f"{token.text or 'the end'!r} is no beginning of anything")


def multiply(left: Expression, right: Expression) -> Expression:
    """Return a product; one of many factors is flat."""
    return Apply("*", (*left.args, right) if isinstance(left, Apply) and left.op == "*" else (left, right))


def depth(node: Expression) -> int:
    """Return how many operations stand within one another."""
    deepest, waiting = 0, [(node, 1)]
    while waiting:
        part, level = waiting.pop()
        deepest = max(deepest, level)
        if isinstance(part, Apply):
            waiting += [(inner, level + 1) for inner in part.args]
    return deepest


def is_proper(node: Expression) -> bool:
    """Return whether a node is a fraction of whole numbers below one: what a mixed number ends in."""
    if not (isinstance(node, Apply) and node.op == "/"):
        return False
    above, below = node.args
    if not (isinstance(above, Number) and isinstance(below, Number)):
        return False
    return not above.decimal and not below.decimal and above.value < below.value


def readable(text: str) -> bool:
    """Return whether an answer can be read, by us or perhaps by sympy."""
    try:
        parse(text)
    except NeedsSympyError:
        return True
    except UnreadableError:
        return False
    return True


# -- brackets, functions, commands, matrices


def absolute(parser: AnswerParser) -> Expression:
    """Return an absolute value, its first bar passed."""
    parser.bars += 1
    node = parser.items()
    parser.expect("|")
    parser.bars -= 1
    return Apply("abs", (node,))


def bracket(parser: AnswerParser, opener: str) -> Expression:
    """Return a group, a tuple, an interval, a set or a rounding, its opening bracket passed."""
    is_set = opener == "\\{"
    outside, parser.bars, parser.colons = (parser.bars, parser.colons), int(is_set), not is_set
    if opener in ("\\{", "(", "[") and parser.takes(OPENERS[opener]):
        node: Expression = Apply("set" if is_set else f"{opener},{OPENERS[opener]}", ())
    else:
        node = parser.items()
        if opener == "{" and parser.next.text in OVER:  # {1 \over 2}
            node = Apply(OVER[parser.take().text], (node, parser.items()))
        if is_set and (parser.takes("|") or parser.takes(":")):  # the set of all x with a condition
            parser.bars = 0
            node = parser.items()
        node = close_bracket(node, opener, parser.take().text)
    parser.bars, parser.colons = outside
    return node


def close_bracket(node: Expression, opener: str, closer: str) -> Expression:
    """Return what a pair of brackets makes of what is in them."""
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


def function(parser: AnswerParser, name: str) -> Expression:
    """Return a function with its power, index and argument, its name passed."""
    power: Expression | None = None
    base: Expression | None = None
    while parser.next.text in ("^", "_"):
        if parser.take().text == "^":
            power = parser.argument(whole=True)
        else:
            base = parser.argument(whole=True)
    if power == Apply("neg", (Number(Fraction(1)),)) and f"a{name}" in FUNCTIONS.values():
        name, power = f"a{name}", None
    if parser.next.text in ("(", "[", "{", "|"):
        inner = parser.atom()
    else:
        inner = parser.factor()
        # sin 2x is the sine of 2x, sin x cos x a product of two.
        while parser.next.kind in ("number", "name") or parser.next.text in FRACTIONS:
            inner = parser.juxtaposed(inner)
    if name in ANGLES:
        # The sine of degrees is that of what they are worth; elsewhere degrees are a unit.
        inner = rewrite(inner, lambda part: Apply("radians", part.args) if part.op == "degree" else part)
    arguments = inner.args if isinstance(inner, Apply) and inner.op in ("(,)", "list", "set") else (inner,)
    node = Apply(name, arguments if base is None else (*arguments, base))
    return node if power is None else Apply("^", (node, power))


def command(parser: AnswerParser, name: str) -> Expression:
    """Return a LaTeX command with its arguments, its name passed."""
    if name in FRACTIONS:
        return fraction(parser.argument(), parser.argument())
    if name == "\\sqrt":
        index: Expression = Number(Fraction(2))
        if parser.takes("["):
            index = parser.sum()
            parser.expect("]")
        return Apply("root", (parser.argument(whole=True), index))
    if name in BINOMIALS:
        return Apply("binom", (parser.argument(), parser.argument()))
    if name in SPECIAL:
        return SPECIAL[name]
    if name in STYLES:
        return parser.argument()
    if name in SILENT:
        return parser.factor()
    if name == "\\mathbb":
        letter = parser.argument()
        return Name(NUMBER_SETS.get(letter.name, letter.name)) if isinstance(letter, Name) else letter
    if name in MARKS:
        return with_mark(SAME_MARK.get(name, name), parser.argument())
    if name in SYMPY_ONLY:
        raise NeedsSympyError(f"{name} is left to sympy")
    if name == "\\ell":
        return Name("l")
    raise UnreadableError(f"unknown command {name}")


def fraction(above: Expression, below: Expression) -> Expression:
    """Return a fraction; dy/dx is a name of its own, d/dx of something is left to sympy."""
    parts = below.args if isinstance(below, Apply) and below.op == "*" else ()
    if len(parts) == 2 and parts[0] == Name("d") and isinstance(parts[1], Name):
        base = above.args[0] if isinstance(above, Apply) and above.op in ("*", "^") else above
        if base == Name("d"):
            if isinstance(above, Apply) and above.op == "*" and len(above.args) == 2:
                return Name(f"d{to_text(above.args[1])}/d{parts[1].name}")
            raise NeedsSympyError("derivatives are left to sympy")
    return Apply("/", (above, below))


def environment(parser: AnswerParser, kind: str) -> Expression:
    """Return a matrix, or a value by cases, its beginning passed."""
    if kind not in ENVIRONMENTS:
        raise UnreadableError(f"unknown environment {kind!r}")
    rows: list[list[Expression]] = [[]]
    while parser.next.kind != "ending":
        if parser.next.kind == "text" and parser.next.text.lower() in CONDITIONS:
            parser.take()
        rows[-1].append(parser.clause())
        if kind == "cases" and parser.next.text in (",", ";"):  # "x, & x > 0"
            parser.take()
        if parser.takes("\\\\"):
            rows.append([])
        elif not parser.takes("&") and parser.next.kind != "ending":
            raise UnreadableError("a matrix whose entries are not told apart")
    if parser.take().text != kind:
        raise UnreadableError("an environment closed by another")
    kept = [Apply("row", tuple(row)) for row in rows if row]
    if not kept or len({len(row.args) for row in kept}) != 1:
        raise UnreadableError("a matrix with rows of different lengths")
    if len(kept[0].args) == 1 and (kind == "cases" or (kind == "array" and len(kept) == 1)):
        entries = tuple(row.args[0] for row in kept)
        return entries[0] if len(entries) == 1 else Apply("list", entries)  # a system of equations
    return Apply({"vmatrix": "det", "cases": "cases"}.get(kind, "matrix"), tuple(kept))


# -- units behind numbers

ORDINALS = tuple(Words(ending) for ending in ("st", "nd", "rd", "th"))
SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
"""Words behind a number that stand for powers of ten."""
JOINING = frozenset({"or", "and", "to", "plus", "minus", "not", "than"})
"""Words behind a number that no unit begins with: "3 or more" is not 3."""


def continues_quantity(parser: AnswerParser, node: Expression) -> bool:
    """Return whether a quantity goes on in a smaller unit: 6 feet 2 inches."""
    if not (parser.next.kind == "number" and isinstance(node, Apply) and node.op in ("unit", "degree")):
        return False
    behind = parser.tokens[parser.place + 1]
    return isinstance(node.args[0], Number) and (behind.kind in ("text", "unit") or behind.text == "'")


def with_unit(parser: AnswerParser, node: Expression) -> Expression:
    """Return what stands before a unit, with it: "5 cm", "5 m/s", "5 square feet"."""
    parts: list[str] = []
    while True:
        if parser.next.kind in ("text", "unit"):
            parts += parser.take().text.split()
        elif parser.next.text in ("/", "*", "\\cdot") and begins_unit(parser.tokens[parser.place + 1]):
            parts += [parser.take().text, parser.take().text]
        else:
            break
        if parser.takes("^"):
            parts.append(f"^{to_text(parser.argument(whole=True))}")
    if parts and parts[0].lower() in SCALES:
        node = Apply("*", (node, Number(Fraction(10 ** SCALES[parts.pop(0).lower()]))))
    if parts and parser.next.kind == "number" and parts[-1].lower() == "and":
        parts.pop()  # "2 hours and 30 minutes"
    if not parts:
        return node
    return Apply("phrase" if parts[0].lower() in JOINING else "unit", (node, plain_words(" ".join(parts))))


def begins_unit(token: Token) -> bool:
    """Return whether a token behind a stroke or a dot goes on with the unit before it."""
    return token.kind in ("text", "unit") or (token.kind == "name" and token.text in UNIT_LETTERS)


def is_unit(node: Expression) -> bool:
    """Return whether a factor can only be a unit: words, or a fraction with words in it and no numbers."""
    if isinstance(node, Words):
        return True
    parts = tuple(walk(node)) if isinstance(node, Apply) and node.op == "/" else ()
    return any(isinstance(part, Words) for part in parts) and not any(isinstance(part, Number) for part in parts)
