"""One spelling for what is written in many: Unicode signs, LaTeX layout, thousands, markdown."""

from __future__ import annotations

import re
import unicodedata

BOX = r"\\(?:boxed|fbox|framebox)\s*"
"""A pattern of the commands that put an answer in a box, up to the brace."""
SIGNS = {
    "\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-", "\ufe63": "-",
    "\u00d7": r"\times ", "\u22c5": r"\cdot ", "\u00b7": r"\cdot ", "\u2219": r"\cdot ", "\u2217": "*",
    "\u00f7": r"\div ", "\u2044": "/", "\u2215": "/", "\u2236": ":", "\u00b1": r"\pm ", "\u2213": r"\mp ",
    "\u2264": "<=", "\u2a7d": "<=", "\u2265": ">=", "\u2a7e": ">=", "\u2260": "!=", "\u2248": r"\approx ",
    "\u221e": r"\infty ", "\u222a": r"\cup ", "\u2229": r"\cap ", "\u2216": r"\setminus ", "\u2208": r"\in ",
    "\u2205": r"\emptyset ", "\u211d": r"\mathbb{R}", "\u2124": r"\mathbb{Z}", "\u2115": r"\mathbb{N}",
    "\u211a": r"\mathbb{Q}", "\u2102": r"\mathbb{C}", "\u221a": r"\sqrt ", "\u221b": r"\sqrt[3]",
    "\u00b0": r"^\circ ", "\u00ba": r"^\circ ", "\u2220": r"\angle ", "\u2032": "'", "\u2019": "'",
    "\u2026": r"\ldots ",
    "\u27e8": r"\langle ", "\u27e9": r"\rangle ", "\u2329": r"\langle ", "\u232a": r"\rangle ",
    "\u230a": r"\lfloor ", "\u230b": r"\rfloor ", "\u2308": r"\lceil ", "\u2309": r"\rceil ", "\u2223": "|",
    "\u222b": r"\int ", "\u2211": r"\sum ", "\u220f": r"\prod ", "\u2228": r"\lor ", "\u2227": r"\land ",
    "\u20ac": "$", "\u00a3": "$", "\u00a5": "$", "\u20b9": "$", "\u2261": r"\equiv ", "\u3001": ",",
    "\u200b": "", "\u2061": "", "\u2062": "*", "\u2009": r"\,", "\u202f": r"\,", "\ufeff": "",
    "\u03b5": r"\epsilon ", "\u03d5": r"\phi ", "\u03c2": r"\sigma ",
}  # fmt: skip
"""Signs that Unicode has and LaTeX spells out."""
RAISED = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b\u207f"
LOWERED = "\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089"
METRES = re.compile(
    "(?<=[0-9])( ?[mM])(?=[\u00b2\u00b3])"
)  # whoever writes a metre raises it like this, not a variable
RAISED_RUN, LOWERED_RUN = re.compile(f"[{RAISED}]+"), re.compile(f"[{LOWERED}]+")
AS_PLAIN = str.maketrans(RAISED + LOWERED, "0123456789+-n0123456789")

LAYOUT = re.compile(
    r"\\(?:left|right|middle|bigl?|Bigl?|biggl?|Biggl?|bigr|Bigr|biggr|Biggr)(?![A-Za-z])"
    r"\s*\.?(?=[()\[\]{}|\\.<>/]|\s|$)|"
    r"\\(?:displaystyle|textstyle|limits|nolimits|rm|bf|it|boldmath|hfill|tiny|small|large|Large|LARGE|huge|Huge|"
    r"phantom\{[^{}]*\}|hspace\{[^{}]*\})(?![A-Za-z])|"
    r"\\(?:text)?color\s*\{[^{}]*\}|(?<=[0-9A-Za-z)}])\{\}(?=[\^_])|(?<=\\\\)\s?\[[0-9.]+(?:pt|em|ex|mm|cm)\]"
)
DELIMITERS = re.compile(r"(?<!\\)\\[()\[\]]|\\?\$")
ALIGNED = re.compile(
    r"\\begin\s*\{(?:aligned|align\*?|gathered|split)\}|\\end\s*\{(?:aligned|align\*?|gathered|split)\}"
)
MODULUS = re.compile(
    r"\(\s*(?:\\b?mod(?![A-Za-z])|\\(?:text|mathrm|operatorname)\s*\{\s*mod\s*\}|mod(?![A-Za-z]))([^()]*)\)"
)
QUALIFIER = re.compile(
    r"(?<=\S)(?:[\s,;(~]|\\[,;:! ]|\\q?quad)*"
    r"(?:\\text\s*\{[\s,(]*for\s+(?:all|any|every|each)\b|\\forall(?![A-Za-z])|(?<![A-Za-z])for\s+(?:all|any|every|each)\b).*",
    re.DOTALL,
)
ROW = re.compile(r"[,;]?\s*\\\\\s*(?P<more>=\s*)?")
ENDING = re.compile(r"(?:\s|~|\\q?quad|\\\\|\\checkmark|\\blacksquare|\\square)+$")
THOUSANDS = re.compile(r"(?<=[0-9])(?:\{,\}|,?\\! ?,?|,?\\,)(?=[0-9]{3}(?![0-9]))")
LEADING = re.compile(
    r"(?:=|\\approx(?![A-Za-z])|\\therefore(?![A-Za-z])|\\implies(?![A-Za-z])|:"
    r"|\\(?:text|mathrm)\s*\{[^{}]*(?:\b(?:is|are)|[:=])\s*\}(?=\s*\S)"
    r"|(?:\\(?:text|mathrm)\s*\{\s*(?:about|approximately|roughly)\s*\}|(?:about|approximately|roughly|therefore)\b)(?=\s*\S)"
    r"|(?:(?:the\s+)?(?:final\s+)?answer(?:\s+is|\s*:)+)(?=\s*\S))\s*",
    re.IGNORECASE,
)
BOXED = re.compile(BOX + r"(?=\{)")
QUOTES = ("**", "__", "`", '"', "\u201c", "\u201d")
SPACE = re.compile(r"\s+")


def plain_signs(text: str) -> str:
    """Return the text with signs of Unicode as LaTeX or ASCII spell them: a raised 2 is ^{2}, one half is (1/2)."""
    if text.isascii():
        return text
    text = METRES.sub(r"\\text{m}", text)
    text = RAISED_RUN.sub(lambda run: "^{" + run[0].translate(AS_PLAIN) + "}", text)
    text = LOWERED_RUN.sub(lambda run: "_{" + run[0].translate(AS_PLAIN) + "}", text)
    return "".join(sign if sign.isascii() else plain_sign(sign) for sign in text)


def plain_sign(sign: str) -> str:
    """Return one sign as LaTeX or ASCII spell it; one that neither has stays."""
    if sign in SIGNS:
        return SIGNS[sign]
    if unicodedata.category(sign) == "Cf":  # directions of writing
        return ""
    compatible = unicodedata.normalize("NFKC", sign)
    if "\u2044" in compatible:  # a fraction in one sign; without its lower half it is "1/" of what follows
        above, _, below = compatible.partition("\u2044")
        return rf"\frac{{{above}}}{{{below}}}" if below else f"{above}/"
    name = unicodedata.name(sign, "")
    if name.startswith(("GREEK SMALL LETTER ", "GREEK CAPITAL LETTER ")):
        letter = name.rsplit(" ", 1)[1].lower()
        letter = letter.replace("lamda", "lambda")
        return f"\\{letter.capitalize() if 'CAPITAL' in name else letter} "
    digit = unicodedata.decimal(sign, None)
    if digit is not None:
        return str(digit)
    return SIGNS.get(compatible, compatible)


def clean(text: str) -> str:
    """Return an answer without layout: math delimiters, sizes of brackets, boxes, markdown, a final period."""
    text = plain_signs(text).strip()
    text = LAYOUT.sub(" ", text)
    text = BOXED.sub("", text)
    text = join_lines(text) if ALIGNED.search(text) else text
    text = DELIMITERS.sub("", text)
    text = QUALIFIER.sub("", text)
    text = MODULUS.sub(r"\\pmod{\1}", text) if "mod" in text else text
    text = THOUSANDS.sub("", text)
    text = SPACE.sub(" ", text).strip()
    while True:
        before = text
        for quote in QUOTES:
            text = text.removeprefix(quote).removesuffix(quote)
        # A final mark belongs to the sentence; "\," and "\!" would lose half of themselves.
        if text.endswith((".", ",", ";", ":")) and not text.endswith(("\\,", "\\;", "\\:", "...")):
            text = text[:-1]
        if len(text) > 2 and text[0] == text[-1] == "*":
            text = text[1:-1]
        text = LEADING.sub("", text, count=1) if LEADING.match(text) else text
        text = ENDING.sub("", text).strip() if not text.endswith("\\ ") else text.strip()
        if text == before:
            return text


def join_lines(text: str) -> str:
    """Return aligned formulas in one line, with commas between; a line that begins with "=" continues a chain."""
    inside = ALIGNED.sub("", text)
    if "\\begin" in inside:  # a matrix has rows and columns of its own
        return text
    text = inside.replace("&", "").strip().removesuffix("\\\\").rstrip()
    return ROW.sub(lambda row: " = " if row["more"] else ", ", text)
