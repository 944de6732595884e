"""The code of a completion."""

from __future__ import annotations

import ast
import re

# A fence may be indented and longer than three; it is closed by one at least as long, or by the end of the text.
FENCE = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+#.-]*)[^\n`]*\n"
    r"(?P<code>.*?)(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
PYTHON = ("python", "python3", "py", "py3")
UNNAMED = ("", "code")


def extract_code(completion: str, *, bare: bool = True) -> str | None:
    """The code of a completion: its last fenced block of Python, else its last block without a language.

    What stands before the last `</think>` does not count, and after a `<think>` that is never closed there is none. A
    block that is cut off by the end of the text counts up to there. Without any block the whole text is code, if
    `bare`; one that has blocks of other languages alone has no code.
    """
    thought, closed, rest = completion.rpartition("</think>")
    text = rest if closed else thought + rest
    if not closed and text.lstrip().startswith("<think>"):
        return None
    blocks = [(match["language"].lower(), match["code"]) for match in FENCE.finditer(text)]
    for languages in (PYTHON, UNNAMED):
        found = [code for language, code in blocks if language in languages and code.strip()]
        if found:
            return found[-1]
    return text if bare and not blocks and text.strip() else None


def defines(code: str, name: str) -> bool:
    """Whether code has, at its outermost level, a function or class of this name, or gives the name a value."""
    escaped = re.escape(name)
    return bool(
        re.search(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{escaped}\b|^{escaped}[ \t]*[:=](?!=)", code, re.MULTILINE)
    )


def completed(prompt: str, code: str, name: str) -> str:
    """The program that a prompt and the code written after it make: code that goes on where the prompt ends, or that
    defines the function `name` whole, for which the prompt still gives imports and other functions.
    """
    return f"{runnable(prompt)}\n\n{code}" if defines(code, name) else prompt + code


def runnable(prompt: str) -> str:
    """A prompt as a program that does nothing: with a body where its last function has none; "" if it is no Python."""
    for text in (f"{prompt.rstrip()}\n    pass\n", f"{prompt.rstrip()}\n"):
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        return text
    return ""
