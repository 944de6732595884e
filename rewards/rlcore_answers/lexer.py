"""Answers cut into tokens: numerals, names, functions, words and units, signs and commands."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from rlcore_answers.expressions import Apply, Name, Node, Number, Words, rewrite


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


def time_of(text: str) -> Node | None:
    """A time before or after noon, or None."""
    if "m" not in text.lower():
        return None
    found = TIME.fullmatch(TEXT.sub(r" \1 ", text).replace("~", " ").replace("\\", " "))
    if found is None:
        return None
    return Apply("time", (*(Number(Fraction(int(found[k] or 0))) for k in (1, 2)), Words(f"{found[3].lower()}m")))


def words_of(text: str) -> Node | None:
    """An answer that is words and nothing else ("yes", "no solution", "Ann, Bob"), or None for mathematics.

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
    parts = [worded(part) for part in flat.split(",")]
    kept = tuple(part for part in parts if part.text)
    return kept[0] if len(kept) == 1 else Apply("list", kept)


def is_word(run: str) -> bool:
    """Whether a run of letters can only be a word: no function, and no product of two names."""
    lower = run.lower()
    if lower in SPELLED_OUT or lower in GREEK or run in FUNCTIONS:
        return False
    return len(run) > 2 or lower in SHORT_WORDS


def worded(text: str) -> Words:
    """Words in lower case with single spaces, without signs around them or an article before them."""
    words = " ".join(text.casefold().split()).strip(" .,;:!?'\"()")
    return Words(ARTICLE.sub("", words))


def text_node(content: str) -> Node | None:
    r"""What stands in `\text{}` if it is no word: a number or a letter, in brackets or not."""
    content = content.strip().strip("$").strip()
    letter = LETTER.fullmatch(content)
    if letter:
        return Name(letter[1])
    content = content.replace(",", "")
    return numeral(content) if re.fullmatch(NUMERAL, content) else None


def numeral(text: str) -> Number:
    """A numeral, exactly. Raises UnreadableError if it has more digits than any answer."""
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


def tokens_of(text: str) -> list[Token]:
    """The tokens of a cleaned answer, an end behind them. Raises UnreadableError at a sign that has no meaning."""
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
        found += pieces(kind, piece, match, found, spaced=spaced)
        spaced = False
    return [*found, Token("end", "")]


def pieces(kind: str, piece: str, match: re.Match[str], before: list[Token], *, spaced: bool) -> list[Token]:
    """The tokens of one match."""
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
    r"""The tokens of `\text{...}`: a function, a separator, a percent sign, or words."""
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
        return tokens_of(word.replace("$", ""))[:-1]  # \text{13}, \text{(A)}, \text{2 or 3}, \text{12 hours}
    return [Token("text", word)]


def letter_tokens(run: str, before: list[Token], *, spaced: bool) -> list[Token]:
    """The tokens of a run of letters: a function, a command, a unit, or one name a letter."""
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


def spelled(node: Node) -> str:
    """A tree in one line, the same for equal trees."""
    if isinstance(node, Number):
        return str(node.value)
    if isinstance(node, Name):
        return node.name
    if isinstance(node, Words):
        return node.text
    return f"{node.op}({' '.join(spelled(part) for part in node.args)})"


def indexed(node: Node, index: Node) -> Node:
    """A name or a numeral with an index: x_1 is a name of its own, 1011_2 a text, which nothing but itself equals."""
    if isinstance(node, Name):
        return Name(f"{node.name}_{spelled(index)}")
    if isinstance(node, Number | Words):
        return Words(f"{spelled(node)}_{spelled(index)}")
    return Apply("index", (node, index))


def marked(mark: str, node: Node) -> Node:
    """Something under an arrow, a bar or a hat: a name of its own; a segment is named by its ends."""
    points = node.args if isinstance(node, Apply) and node.op == "*" else ()
    if mark == "\\overline" and len(points) == 2 and all(isinstance(p, Name) and p.name.isupper() for p in points):
        return node
    return Name(f"{mark} {spelled(node)}")


def in_radians(node: Node) -> Node:
    """The argument of a sine with its degrees as what they are worth; elsewhere degrees are a unit."""
    return rewrite(node, lambda part: Apply("radians", part.args) if part.op == "degree" else part)
