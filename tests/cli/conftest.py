import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from tiny import save_tiny

from rlcore.cli import main

TASK = Path(__file__).parents[1] / "bench/sums.py"
SUMS = (f"data={TASK}:sums", "data.held_out=4", "data.count=16", f"reward={TASK}:is_sum")


@pytest.fixture
def rlcore(capsys):
    """Runs a command line in this process; returns status, standard output and standard error."""

    def run(*words):
        status = main([str(word) for word in words])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A tiny random model on disk."""
    return save_tiny(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def trained(model, tmp_path_factory):
    """The folder of a short run."""
    folder = tmp_path_factory.mktemp("runs")
    sizes = (
        "steps=2",
        "prompts=2",
        "algorithm.group_size=2",
        "max_new_tokens=3",
        f"run.folder={folder}",
        "run.name=short",
    )
    assert main(["train", f"model={model}", *SUMS, *sizes, "--json"]) == 0
    return folder / "short"
