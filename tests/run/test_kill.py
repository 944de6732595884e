"""SIGKILL at any moment, and on again: the end is that of the run that nobody touched, bit for bit."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run import small

pytestmark = pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    """`attempt(where, algorithm, kill_after)`: a forked run, ended by itself or killed."""
    folder = tmp_path_factory.mktemp("model")
    model = small.save_model(folder / "tiny")
    small.save_data(folder / "data.jsonl")
    command = [sys.executable, "-m", "tests.run.nursery"]
    root, pipe = Path(__file__).parents[2], subprocess.PIPE
    with subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == "ready\n"

        def attempt(where, algorithm, kill_after=None):
            asked = {"model": str(model), "where": str(where), "algorithm": algorithm, "kill_after": kill_after}
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield attempt
        process.stdin.close()


def killed_runs_end_alike(attempt, folder, *, algorithm, kills, seed):
    """Kill `kills` runs, each at a moment drawn uniformly over its whole length, and let each go on to its end."""
    whole = folder / "whole"
    attempt(folder / "first", algorithm)  # the first fork pays for what is made lazily
    length = attempt(whole, algorithm)
    assert length["exit"] == 0
    draw = random.Random(seed)
    struck, beyond = 0, 0
    while struck < kills:
        where = folder / f"killed_{struck}_{beyond}"
        moment = draw.uniform(0, length["seconds"])
        first = attempt(where, algorithm, moment)
        if first["exit"] == 0:
            # It ended before it was struck: another one.
            beyond += 1
            assert beyond < 3 * kills + 10, "most runs ended before their moment came"
            continue
        assert first["exit"] == -9
        struck += 1
        assert attempt(where, algorithm)["exit"] == 0
        small.assert_equal_runs(where / "run", whole / "run")
        left = [p.name for p in (where / "run" / "checkpoints").iterdir()]
        assert sorted(left) == ["step_2", "step_3"], left


def test_ten_kills_at_uniformly_drawn_moments_change_nothing(nursery, tmp_path):
    killed_runs_end_alike(nursery, tmp_path, algorithm="ppo", kills=10, seed=0)


def test_a_run_that_is_killed_again_and_again_ends_alike(nursery, tmp_path):
    whole = nursery(tmp_path / "whole", "dapo")
    draw, struck = random.Random(1), 0
    for _ in range(4):
        # At least one step is done in each life, or it would never end.
        ended = nursery(tmp_path / "killed", "dapo", whole["seconds"] * draw.uniform(0.3, 0.7))
        if ended["exit"] == 0:
            break
        struck += 1
    assert struck >= 1
    assert nursery(tmp_path / "killed", "dapo")["exit"] == 0
    small.assert_equal_runs(tmp_path / "killed" / "run", tmp_path / "whole" / "run")


@pytest.mark.chaos
@pytest.mark.parametrize("algorithm", ["ppo", "dapo", "grpo"])
def test_thirty_kills_in_all_at_uniformly_drawn_moments_change_nothing(nursery, tmp_path, algorithm):
    killed_runs_end_alike(nursery, tmp_path, algorithm=algorithm, kills=10, seed=2)
