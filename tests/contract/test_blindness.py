"""Executor and trainer know no algorithm and no column but the structural ones: that is why a stranger's fit in."""

import ast
from pathlib import Path

import pytest

from rlcore.columns import COLUMNS

ROOT = Path(__file__).parents[2]
FILES = sorted(path for part in ("execute", "train") for path in (ROOT / "rlcore" / part).rglob("*.py"))

# A trainer offers readouts by name; some have the name of the column that they usually fill.
READOUTS = {column.readout for column in COLUMNS.values()} - {None}
COLUMN_NAMES = {name for name, column in COLUMNS.items() if not column.structural} - READOUTS

SHELF = ROOT / "algorithms/rlcore_algorithms"


def defined(path):
    """Whether a file of the shelf is about the function of its own name."""
    return f"\ndef {path.stem}(" in path.read_text(encoding="utf-8")


# Every named algorithm, and every part whose name is no common word (`clip` and `scale` are).
ALGORITHM_NAMES = {path.stem for path in SHELF.glob("[!_]*.py") if defined(path)}
ALGORITHM_NAMES |= {path.stem for path in SHELF.glob("*/[!_]*_*.py") if defined(path)} | {"gae", "clipped"}


def docstrings(tree):
    """The constants that are documentation."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def named(text):
    """What the code says by strings and imports, and by attributes and keywords of more than one word, with its line.

    A column is reached as `batch["name"]`; an attribute of one word (`plan.selected`) may be anything.
    """
    tree = ast.parse(text)
    documentation = set(docstrings(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(value)) if node not in documentation:
                yield value, node.lineno
            case ast.Attribute(attr=name) if "_" in name:
                yield name, node.lineno
            case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
                for alias in aliases:
                    yield from ((word, node.lineno) for word in alias.name.split("."))
            case ast.Call(keywords=keywords):
                yield from ((keyword.arg, node.lineno) for keyword in keywords if "_" in (keyword.arg or ""))


def offences(text, forbidden):
    return sorted({(line, name) for name, line in named(text) if name in forbidden})


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "rlcore")))
def test_no_column_but_the_structural_ones_is_named(path):
    assert offences(path.read_text(encoding="utf-8"), COLUMN_NAMES) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "rlcore")))
def test_no_algorithm_or_part_of_one_is_named(path):
    assert offences(path.read_text(encoding="utf-8"), ALGORITHM_NAMES) == []


ON_DATA = {"sft", "dpo", "ipo", "simpo", "kto", "bradley_terry", "distill"}
CORE = [
    path
    for path in sorted((ROOT / "rlcore").rglob("*.py"))
    # The command `rlcore sft` is named by what it is short for.
    if path not in (ROOT / "rlcore/cli/sft.py", ROOT / "rlcore/cli/__init__.py") and "templates" not in path.parts
]


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT / "rlcore")))
def test_no_file_of_the_core_names_an_algorithm_on_data_or_a_metric_of_the_node_update(path):
    text = path.read_text(encoding="utf-8")
    assert offences(text, ON_DATA) == []
    # The law of trackers logs made-up metrics.
    if path.name != "lifetimes.py":
        assert [name for name, _ in named(text) if name.startswith("update/")] == []


@pytest.mark.parametrize(
    "line",
    [
        'batch["old_logprob"]',
        "batch.ref_logprob",
        "import rlcore_algorithms.losses.clipped",
        "f(old_logprob=1)",
        'x = "grpo"',
    ],
)
def test_the_search_finds_what_it_should(line):
    assert offences(line, COLUMN_NAMES | ALGORITHM_NAMES)
    assert not offences(f'def f():\n    """{line.replace(chr(34), chr(39))}"""', COLUMN_NAMES | ALGORITHM_NAMES)
    assert {"gae", "clipped", "token_mean", "leave_one_out", "grpo", "ppo"} <= ALGORITHM_NAMES
