"""The public API is what is written down: a name that goes, or a parameter that changes, breaks somebody's program."""

import difflib
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WRITE = "If that is meant: python docs/make_api.py, a line in CHANGELOG.md, and commit both files."


@pytest.fixture(scope="module")
def api():
    spec = importlib.util.spec_from_file_location("make_api", ROOT / "docs/make_api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def difference(written, now):
    return "\n".join(
        difflib.unified_diff(written.splitlines(), now.splitlines(), "written down", "now", lineterm="", n=0)
    )


def test_every_signature_is_the_one_that_is_written_down(api):
    changed = difference(api.PINNED.read_text(encoding="utf-8"), api.pinned())
    assert not changed, f"the public API has changed:\n{changed}\n{WRITE}"


def test_the_page_lists_every_public_name_with_its_sentence(api):
    changed = difference(api.PAGE.read_text(encoding="utf-8"), api.page())
    assert not changed, f"docs/api.md is not what the code says:\n{changed}\n{WRITE}"


def test_every_public_name_has_a_sentence(api):
    bare = [line for line in api.page().splitlines() if line.endswith("|  |")]
    assert bare == []


def test_a_changed_default_shows_as_one_line(api):
    def before(reward, *, scale: float = 1.0): ...

    def after(reward, *, scale: float = 2.0): ...

    old, new = ("\n".join(api.pinned_lines("mine", f)) for f in (before, after))
    shown = difference(old, new).splitlines()[-2:]
    assert shown == ["-mine(reward, *, scale: float = 1.0)", "+mine(reward, *, scale: float = 2.0)"]
