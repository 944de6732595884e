"""Every block of the tutorial does what the page says, and the example of one step by hand trains."""

import contextlib
import importlib.util
import itertools
import sys
from pathlib import Path

import pytest
import torch

from tests.docs.pages import forget, run_page
from tests.strangers import installed

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "tutorial").glob("*.md"))


def test_the_pages_are_numbered_without_a_gap_and_each_names_the_next():
    assert [page.name[0] for page in PAGES] == ["1", "2", "3", "4", "5", "6"]
    for page, following in itertools.pairwise(PAGES):
        assert f"({following.name})" in page.read_text(encoding="utf-8").splitlines()[-1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_runs(page, tmp_path, monkeypatch):
    read_and_do(page, tmp_path, monkeypatch, train_all=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_run_of_a_page_trains(page, tmp_path, monkeypatch):
    read_and_do(page, tmp_path, monkeypatch, train_all=True)


def read_and_do(page, folder, monkeypatch, *, train_all):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    with contextlib.ExitStack() as stack:
        stack.callback(forget, folder)
        run_page(page, lambda plugin: stack.enter_context(installed(plugin)), train_all=train_all)


def test_one_step_by_hand_updates_the_weights(capsys):
    spec = importlib.util.spec_from_file_location("one_step", DOCS / "examples/one_step.py")
    example = importlib.util.module_from_spec(spec)
    sys.modules["one_step"] = example
    spec.loader.exec_module(example)
    threads = torch.get_num_threads()
    first, second = example.main(steps=2)
    torch.set_num_threads(threads)
    assert first["updates/applied"] == second["updates/applied"] == 1
    assert 0 < first["gradient_norm"] < 10
    assert 0 <= first["score"] <= 1
    assert capsys.readouterr().out.startswith("step 1  score ")
