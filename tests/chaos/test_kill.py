"""SIGKILL at any moment, and on again: the end is that of the run that nobody touched, bit for bit."""

import os
import random

import pytest

from tests.chaos.faults import Fault, drawn, nursery
from tests.run import small

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    with nursery(tmp_path_factory.mktemp("chaos")) as started:
        yield started


def killed_runs_end_alike(runs, folder, *, setting, kills, seed):
    """Kill `kills` runs, each at a moment drawn uniformly over its whole length, and let each go on to its end."""
    whole = folder / "whole"
    runs.attempt(folder / "first", setting)  # the first fork pays for what is made lazily
    length = runs.attempt(whole, setting)
    assert length["exit"] == 0
    draw = random.Random(seed)
    struck, beyond = 0, 0
    while struck < kills:
        where = folder / f"killed_{struck}_{beyond}"
        moment = draw.uniform(0, length["seconds"])
        first = runs.attempt(where, setting, kill_after=moment)
        if first["exit"] == 0:
            # It ended before it was struck: another one.
            beyond += 1
            assert beyond < 3 * kills + 10, "most runs ended before their moment came"
            continue
        assert first["exit"] == -9
        struck += 1
        assert runs.attempt(where, setting)["exit"] == 0
        small.assert_equal_runs(where / "run", whole / "run")
        left = [p.name for p in (where / "run" / "checkpoints").iterdir()]
        assert sorted(left) == ["step_2", "step_3"], left


def test_ten_kills_at_uniformly_drawn_moments_change_nothing(runs, tmp_path):
    killed_runs_end_alike(runs, tmp_path, setting="ppo", kills=10, seed=0)


def test_a_run_that_is_killed_again_and_again_ends_alike(runs, tmp_path):
    whole = runs.attempt(tmp_path / "whole", "dapo")
    draw, struck = random.Random(1), 0
    for _ in range(4):
        # At least one step is done in each life, or it would never end.
        ended = runs.attempt(tmp_path / "killed", "dapo", kill_after=whole["seconds"] * draw.uniform(0.3, 0.7))
        if ended["exit"] == 0:
            break
        struck += 1
    assert struck >= 1
    assert runs.attempt(tmp_path / "killed", "dapo")["exit"] == 0
    small.assert_equal_runs(tmp_path / "killed" / "run", tmp_path / "whole" / "run")


@pytest.mark.parametrize("fault", ["ahead:driver:2:prompts:1", "turns:driver:2:prompts:2", "free:driver:3:update:3"])
def test_the_driver_is_killed_with_groups_in_flight(runs, fault):
    assert runs.strike(Fault.parse(fault))["exit"] == -9


@pytest.mark.chaos
@pytest.mark.parametrize("setting", ["ppo", "dapo", "grpo"])
def test_thirty_kills_in_all_at_uniformly_drawn_moments_change_nothing(runs, tmp_path, setting):
    killed_runs_end_alike(runs, tmp_path, setting=setting, kills=10, seed=2)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(12))
def test_a_drawn_fault_loses_nothing(runs, seed):
    """Fifty of them: `python -m tests.chaos`."""
    for number in range(seed, seed + 500, 100):
        if runs.strike(drawn(number))["exit"]:
            return
    pytest.fail("five faults in a row struck nothing")


@pytest.mark.chaos
@pytest.mark.parametrize("fault", ["sampler apart, ahead:sampler:3:prompts:0", "trainer apart:trainer:2:advantage:0"])
def test_a_role_is_killed_with_work_in_hand(runs, fault):
    assert runs.strike(Fault.parse(fault))["exit"] == 1
