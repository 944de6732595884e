"""What LaTeX commands and signs mean to the reader of answers."""

from __future__ import annotations

from rlcore_answers.expressions import Apply, Name, Node

BOX = r"\\(?:boxed|fbox|framebox)\s*"
"""A pattern of the commands that put an answer in a box, up to the brace."""
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
SPECIAL: dict[str, Node] = {"\\infty": Name("infinity"), "\\emptyset": Apply("set", ()),
                           "\\varnothing": Apply("set", ()),
           "\\ldots": Name("..."), "\\dots": Name("..."), "\\cdots": Name("..."), "\\imath": Name("i")}  # fmt: skip
NUMBER_SETS = {"R": "reals", "Z": "integers", "N": "naturals", "Q": "rationals", "C": "complexes"}
ENVIRONMENTS = frozenset({"pmatrix", "bmatrix", "matrix", "vmatrix", "array", "Bmatrix", "smallmatrix", "cases"})
CONDITIONS = frozenset({"if", "for", "when", "where"})
DEGREES = frozenset({"\\circ", "\\degree"})
SYMPY_ONLY = frozenset({"\\int", "\\sum", "\\prod", "\\lim", "\\iint", "\\oint", "\\partial", "\\nabla"})
"""What is left to sympy: our reader says so, and the comparer asks a worker."""
