"""The lessons run from top to bottom, stay short, and are kept without outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def code(book) -> list[str]:
    return [
        line for cell in book.cells if cell.cell_type == "code" for line in cell.source.splitlines() if line.strip()
    ]


def test_there_are_lessons():
    assert len(NOTEBOOKS) >= 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lesson_is_short_and_cleared(path):
    book = nbformat.read(path, as_version=4)
    assert len(code(book)) <= 25
    assert all(not cell.outputs and cell.execution_count is None for cell in book.cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lesson_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert all(cell.execution_count for cell in book.cells if cell.cell_type == "code")
