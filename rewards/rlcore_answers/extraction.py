r"""Where the answer of a completion stands: one way of finding it, for rewards and evaluation alike.

The forms, in the order in which they are believed: the last `\boxed{}` or `\fbox{}`; what follows the last `####`; the
last `<answer>` tag; the last "Final answer: ..." or "the answer is ..."; the last bold passage; the last formula
between dollar signs; a completion of one line that reads as an answer; the last number. All of it takes time linear
in the length.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal, TypeVar

from rlcore_answers.cleaning import BOX
from rlcore_answers.parser import LONGEST_ANSWER, is_word, readable
from rlcore_rewards.form import END_TOKENS

Item = TypeVar("Item")
Form = Literal["box", "hashes", "tag", "phrase", "bold", "formula", "line", "number"]

FORMS: tuple[Form, ...] = ("box", "hashes", "tag", "phrase", "bold", "formula", "line", "number")
"""Every form, the most certain first."""
STRICT: tuple[Form, ...] = ("box",)
"""What counts as an answer where the prompt asks for a box."""
STOP_TOKENS = (
    *END_TOKENS,
    "<|end|>",
    "<|eom_id|>",
    "<|return|>",
    "<|endofturn|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)
"""Ends of a turn, as texts: what a sampler leaves in a completion behind one of them is no part of it."""
LONGEST_LINE = 200  # characters of a completion that is an answer as a whole

BOXED = re.compile(BOX + r"(?:\{|(?<=\s)(?P<bare>[^\s{}$\\]+))")
BRACE = re.compile(r"\\[\\{}]|[{}]")
ASIDE = re.compile(r"[,;.]\s+(?!and\b|or\b)(?=[A-Za-z]{2})")
PHRASE = re.compile(
    r"\b(?:answers?|solution|(?:correct|right|best)\s(?:option|choice))\b\s{0,4}(?:\*\*|__)?\s{0,4}(?:(?:\([^()\n]{0,40}\)\s{0,4})?"
    r"(?:is|are|=|:|\uff1a)\s{0,4}){1,3}(?:\*\*|__)?|\*\*\s{0,4}(?:final\s+)?answer\s{0,4}\*\*"
    r"|^#{1,6} {0,4}(?:final )?answer[ :]{0,4}$",
    re.IGNORECASE | re.MULTILINE,
)
DELIMITER = re.compile(r"\$\$|(?<!\\)\$|\\[()\[\]]")
CLOSING = {"$": "$", "$$": "$$", "\\(": "\\)", "\\[": "\\]"}
BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
NUMBER = re.compile(
    r"(?<![\w.])(?:(?<![\w)\]}%])[-\u2212])?[$\u20ac\u00a3]?-?"
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?(?:/[0-9]+(?![0-9/]|[.,][0-9]))?%?"
)
WORD = re.compile(r"[^\W\d_]{2,}")
DIGIT = re.compile(r"[0-9]")
BEGINNINGS = frozenset({"we", "it", "so", "he", "my", "as", "in", "if", "at"})
"""Words of two letters that sentences begin with."""
VERB = re.compile(r"(?<=\s)(?:is|are|equals|be)\s+")
REASON = re.compile(
    r",\s+(?:not|rather than|instead of)\s|,?\s(?:because|since|which|where|so that|as)\s"
    r"|\.(?:\s|$)|(?<=[0-9)}])\s*[;!]"
)


def extract(text: str, *, forms: tuple[Form, ...] = FORMS, stop_tokens: tuple[str, ...] = STOP_TOKENS) -> str | None:
    """Return the answer that a completion gives, as it is written there, or None if it gives none in any of `forms`.

    The text counts up to the first of `stop_tokens`. Of several answers in one form the last one counts. A last box
    that is empty, or never closed, is no answer, and no earlier one nor another form takes its place; of boxes within
    one another the innermost counts. Braces behind a backslash do not count as braces.

    Args:
        text: the whole completion.
        forms: the forms to look for, in this order; the first one found is the answer. `STRICT` wants a box.
        stop_tokens: texts behind which nothing counts.
    """
    for token in stop_tokens:
        text = text.partition(token)[0]
    for form in forms:
        found = FINDERS[form](text)
        if found is not None and (found.strip() or form == "box"):
            return found.strip() or None
    return None


def last_item(items: Iterable[Item]) -> Item | None:
    """Return the last item, None if there is none."""
    return next(iter(deque(items, maxlen=1)), None)


def box(text: str) -> str | None:
    r"""Return the content of the last box (`\boxed 7` is one too); "" if it is never closed, None without a box."""
    last = last_item(BOXED.finditer(text))
    if last is None or last["bare"]:
        return last and last["bare"]
    depth = 1
    for match in BRACE.finditer(text, last.end()):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return text[last.end() : match.start()]
    return ""


def hashes(text: str) -> str | None:
    """Return the rest of the line behind the last `####`; None without one.

    It ends before a comma, semicolon or period that words follow: of "12, because ..." it is "12". "and" and "or" go
    on with the answer ("2, and 3"), and so do numbers.
    """
    _, mark, tail = text.rpartition("####")
    return ASIDE.split(tail.strip().partition("\n")[0], maxsplit=1)[0] if mark else None


def tag(text: str) -> str | None:
    """Return the answer in the last closed `<answer>` tag: its last box, else what follows its last "the answer is",
    else its last formula, else all of its text. None without such a tag.
    """
    before, closing, _ = text.rpartition("</answer>")
    _, opening, inside = before.rpartition("<answer>")
    return (box(inside) or phrase(inside) or formula(inside) or inside) if closing and opening else None


def phrase(text: str) -> str | None:
    """Return what follows the last "Final answer:" or "the answer is"; None without such words.

    That is a formula that begins there on lines of its own, else the answer in the rest of the line (`sentence`).
    """
    last = last_item(PHRASE.finditer(text))
    if last is None:
        return None
    statement = text[last.end() : last.end() + LONGEST_ANSWER].lstrip(" \t\r\n:*")
    if statement.startswith(("$$", "\\[")):  # a formula on lines of its own
        place, content = next(formulas(statement), (-1, ""))
        if place == 0:
            return content
    return sentence(statement.partition("\n")[0])


def sentence(line: str) -> str:
    """Return the answer at the beginning of a line.

    Bold text that the line begins with is the answer, if no digit follows it. Else the line counts up to a reason
    ("because", "since", ", not", a period), and from behind its last "is", "are", "be" or "equals": of "the largest
    $n$ is 34, since ..." the answer is "34". If what is left has one formula and no digit beside it, the formula is the
    answer.
    """
    bold = BOLD.match(line)
    if bold and not DIGIT.search(line, bold.end()):
        return bold[1]
    statement = REASON.split(line, maxsplit=1)[0].strip().rstrip("*").rstrip()
    statement = VERB.split(statement)[-1]  # "the largest $n$ is 34"
    found = list(formulas(statement))
    # A formula among numbers or further formulas ("$(1,2)$ and $(3,4)$") is not the whole of it.
    alone = len(found) == 1 and not DIGIT.search(statement.replace(found[0][1], ""))
    return found[0][1] if alone else statement


def bold(text: str) -> str | None:
    """Return the last bold passage; None if it has more than 80 characters, or ends in a colon as a heading does."""
    found = [match[1] for match in BOLD.finditer(text)]
    return found[-1] if found and len(found[-1]) <= 80 and not found[-1].rstrip().endswith(":") else None


def formula(text: str) -> str | None:
    r"""Return the last formula between dollar signs, `\(...\)` or `\[...\]`."""
    last = last_item(formulas(text))
    return last[1] if last else None


def formulas(text: str) -> Iterator[tuple[int, str]]:
    """Yield every formula with the place where it begins.

    A pair of single dollar signs with space inside of it, or on two lines, is no formula but two amounts of money.
    """
    opened: re.Match[str] | None = None
    for match in DELIMITER.finditer(text):
        if opened is None or match[0] != CLOSING[opened[0]]:
            opened = match if match[0] in CLOSING else None
            continue
        content = text[opened.end() : match.start()]
        if match[0] == "$" and (content[:1].isspace() or content[-1:].isspace() or "\n" in content):
            opened = match  # "$5 and $6"
        elif content.strip():
            yield opened.start(), content
            opened = None
        else:
            opened = None


def line(text: str) -> str | None:
    """Return a completion of one line that can be read as an answer; None for any other, and for a sentence with a
    number in it.
    """
    text = text.strip()
    if "\n" in text or len(text) > LONGEST_LINE or not readable(text):
        return None
    word = WORD.match(text)
    is_sentence = word and (is_word(word[0]) or word[0].lower() in BEGINNINGS)
    return None if is_sentence and DIGIT.search(text) and " " in text else text


def number(text: str) -> str | None:
    """Return the last number as it is written; None without one.

    A minus before it is its sign, unless a word, a digit or a closing bracket stands right before the minus: "x = -4"
    gives "-4", and "10-4" gives "4".
    """
    found = NUMBER.findall(text)
    return found[-1] if found else None


FINDERS = dict(zip(FORMS, (box, hashes, tag, phrase, bold, formula, line, number), strict=True))
