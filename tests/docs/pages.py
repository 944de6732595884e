"""Runs the code blocks of a page, in order, in the working directory, as its reader would.

A block whose first line is a comment with a file's name is written to that file. Other Python is run as a script; of a
shell block each line is run. Training is made short, and `text` is compared with what the last shell block printed.
"""

import io
import re
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from rlcore.cli import main

SHORT = {r"\bsteps=\d+": "steps=2", r"\bprompts=\d+": "prompts=2", r"limit=\d+": "limit=2", r"rows=\d+": "rows=32"}
SHORT |= {r'"limit": \d+': '"limit": 2', r"\bsteps: \d+": "steps: 2", r"\bprompts: \d+": "prompts: 2"}
SHORT |= {r"\blimit: \d+": "limit: 2", r"\brows: \d+": "rows: 32", r'data="countdown"': "data=SHORT_DATA"}
SHORT |= {r"resume=(\S+) steps=2": r"resume=\1 steps=3"}
NUMBER = re.compile(r"[-+]?\d[\d.]*(e[-+]\d+)?")


class Block(NamedTuple):
    """A fenced block: its language, its text, and the line of the page that it begins at."""

    language: str
    text: str
    line: int


def blocks(page):
    """Return the fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in found]


def shortened(text):
    """Return the text with few steps, prompts and rows."""
    for pattern, short in SHORT.items():
        text = re.sub(pattern, short, text)
    return text


def named_file(block):
    """Return the file that a block's first line names, and the text that goes into it; None where it names none."""
    first, _, rest = block.text.partition("\n")
    found = re.fullmatch(r"(?:#|//) (\S+\.(?:py|yaml|jsonl|toml))", first)
    return None if found is None else (found[1], rest if found[1].endswith(".jsonl") else block.text)


def run_page(page, install, *, train_all):
    """Run every block of a page. `install(folder)` makes a package known for the rest of the test.

    Without `train_all` a run whose folder the page does not come back to is only checked.
    """
    from rlcore import bind
    from rlcore_envs.datasets import countdown

    names = {"__name__": page.stem, "SHORT_DATA": bind(countdown, rows=32)}
    shown = ""
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        file = named_file(block)
        if file is not None:
            Path(file[0]).parent.mkdir(parents=True, exist_ok=True)
            Path(file[0]).write_text(shortened(file[1]), encoding="utf-8")
        elif block.language == "python":
            exec(compile(shortened(block.text), where, "exec"), names)
        elif block.language == "bash":
            lines = block.text.splitlines()
            shown = "".join(run_line(line if train_all else _checked(line, page), where, install) for line in lines)
        elif block.language == "text":
            check_shown(block.text, shown, where)
        elif block.language == "toml":
            written = "".join(p.read_text(encoding="utf-8") for p in Path().rglob("pyproject.toml"))
            assert block.text in written, f"{where}: no pyproject.toml holds\n{block.text}"
        else:
            raise AssertionError(f"{where}: a block of {block.language} that names no file is never run")


def _checked(line, page):
    """Return a line that trains as one that checks, unless the page comes back to the run, or shows what it prints."""
    name = re.search(r"run\.name=(\S+)", line)
    if name is None or f"runs/{name[1]}" in page.read_text(encoding="utf-8"):
        return line
    return line.replace("rlcore train", "rlcore check", 1)


def run_line(line, where, install):
    """Run one line of a shell block in this process; return what it printed."""
    words = shlex.split(shortened(line))
    if words[:2] == ["pip", "install"]:
        if words[2:] != ["."]:
            install(Path(words[-1]).resolve())
        return ""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        if words[0] == "pytest":
            status = pytest.main(["-q", "-p", "no:cacheprovider", "-c", _no_settings(), *words[1:]])
        else:
            assert words[0] == "rlcore", f"{where}: the tests cannot run {line!r}"
            status = without_the_working_directory(lambda: main(words[1:]))
    assert status == 0, f"{where}: {line}\n{out.getvalue()}"
    return out.getvalue()


def without_the_working_directory(run):
    """Return what `run` returns where Python does not import from the working directory, as in a command."""
    before = list(sys.path)
    sys.path[:] = [place for place in before if place and Path(place) != Path.cwd()]
    try:
        return run()
    finally:
        sys.path[:] = before


def _no_settings():
    path = Path("pytest.ini").resolve()
    path.write_text("[pytest]\naddopts = --import-mode=importlib\n", encoding="utf-8")
    return str(path)


def check_shown(expected, shown, where):
    """Fail unless every expected line was printed, whatever its numbers are."""
    printed = {_masked(line) for line in re.split(r"[\n\r]", shown)}
    for line in expected.splitlines():
        begins = any(one.startswith(_masked(line)) for one in printed)
        assert begins, f"{where}: {line!r} was not printed:\n{shown}"


def _masked(line):
    return " ".join(NUMBER.sub("N", line).split())


def forget(folder):
    """Take out of Python what was imported from files in a folder."""
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "/").is_relative_to(folder):
            del sys.modules[name]
