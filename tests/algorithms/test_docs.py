"""What is written about the shelf is what is on it."""

import importlib.util
from pathlib import Path

import pytest

from rlcore import names
from rlcore.cli import main

DOCS = Path(__file__).parents[2] / "docs"
NAMED = [name for name in names("algorithm") if "/" not in name]


def test_the_page_of_algorithms_is_the_registry():
    spec = importlib.util.spec_from_file_location("make_algorithms", DOCS / "make_algorithms.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = (DOCS / "algorithms.md").read_text(encoding="utf-8")
    assert page == script.text(), "run: python docs/make_algorithms.py"


@pytest.mark.parametrize("name", NAMED)
def test_info_of_an_algorithm_has_formula_paper_and_what_differs(capsys, name):
    assert main(["info", name, "--kind", "algorithm"]) == 0
    out = capsys.readouterr().out
    assert "arXiv:" in out
    assert "What differs from" in out
    assert any(line.startswith("      ") and "=" in line for line in out.splitlines()), "a formula, indented"


def test_info_of_a_preset_says_what_its_peer_does_otherwise(capsys):
    assert main(["info", "verl-0.9/grpo"]) == 0
    assert "What differs from our own components" in capsys.readouterr().out
