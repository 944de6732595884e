"""The code of a completion."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Sequence

# A fence may be longer than three; it is closed by one at least as long, or by the end of the text. Nothing of its line
# is tried twice (`+` after a repetition): in a line of a hundred thousand tildes that would take minutes.
FENCE = re.compile(
    r"^(?P<indent>[ \t]*+)(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[\w+#.-]*+)[^\n`]*+\n"
    r"(?P<code>.*?)(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
PYTHON = ("python", "python3", "py", "py3")
UNNAMED = ("", "code")


def extract_code(completion: str, *, names: Sequence[str] = (), bare: bool = True) -> str | None:
    """Return the code of a completion: of its blocks of Python, or else of those without a language, the last.

    With `names`, the last that defines one of them comes before a later one that does not (a call that shows how to
    use it). What stands before the last `</think>` does not count, and after a `<think>` that is never closed there is
    no code. A block that is cut off by the end of the text counts up to there; one that is indented as a whole, in a
    list, is moved out. Without any block the whole text is code, if `bare`; a text that has blocks, but of other
    languages alone, has no code.
    """
    thought, closed, rest = completion.rpartition("</think>")
    text = rest if closed else thought + rest
    if not closed and text.lstrip().startswith("<think>"):
        return None
    blocks = [
        (match["language"].lower(), re.sub(rf"^{match['indent']}", "", match["code"], flags=re.MULTILINE))
        for match in FENCE.finditer(text)
    ]
    for languages in (PYTHON, UNNAMED):
        found = [code for language, code in blocks if language in languages and code.strip()]
        if found:
            defining = [code for code in found if any(defines_anywhere(code, name) for name in names)]
            return (defining or found)[-1]
    return text if bare and not blocks and text.strip() else None


def defines_anywhere(code: str, name: str) -> bool:
    """Return whether code defines a function, method or class of this name at any level."""
    return bool(re.search(rf"^[ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+{re.escape(name)}\b", code, re.MULTILINE))


def defines(code: str, name: str) -> bool:
    """Return whether code has, at its outermost level, a function or class of this name, or gives the name a value."""
    escaped = re.escape(name)
    return bool(
        re.search(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{escaped}\b|^{escaped}[ \t]*[:=](?!=)", code, re.MULTILINE)
    )


def complete_prompt(prompt: str, code: str, name: str) -> str:
    """Return the program that a prompt and the code written after it make: code that goes on where the prompt ends, or
    that defines the function `name` whole, for which the prompt still gives imports and other functions.
    """
    return f"{make_runnable(prompt)}\n\n{code}" if defines(code, name) else prompt + code


@functools.lru_cache(maxsize=64)  # the samples of a group ask one after another
def make_runnable(prompt: str) -> str:
    """Return a prompt as a program, with a body where its last function has none; "" if it is no Python."""
    for text in (f"{prompt.rstrip()}\n    pass\n", f"{prompt.rstrip()}\n"):
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        return text
    return ""
