"""Every named algorithm raises the success of the default run's model on problems that it has not seen."""

import math
import time

import pytest
import torch

from rlcore import Algorithm, Run, bind, get, names
from rlcore_answers.arithmetic import expression_answer
from rlcore_envs.datasets import countdown

pytestmark = pytest.mark.slow

NAMED = [name for name in names("algorithm") if "/" not in name and isinstance(get("algorithm", name)(), Algorithm)]
"""Those on rows of the data, and distillation, have tests of their own (tests/run/test_it_pays.py)."""
SETTINGS = {"steps": 14, "learning_rate": 5e-4}
OWN = {
    # Two more models are run in each of its steps, but its filter picks prompts that teach.
    "prime": {"steps": 9},
    # A critic that knows nothing costs the first steps.
    "ppo": {"steps": 16},
    "dapo": {"steps": 12},
}
"""Settings of a run by algorithm, where they are not those of all."""

PROBLEMS = 512
CPU_SECONDS = 20


def graded(completion, target, numbers):
    """Right or wrong, and as two parts what is right and what is only well formed."""
    right = expression_answer(completion, target, numbers)
    return {"score": right, "right": right, "uses the numbers": float(right or completion.count("+") > 0)}


def begin(name, folder):
    """A run that has not begun; its rows have no held-out ones beside them, so that it never evaluates by itself."""
    made = bind(get("algorithm", name), group_size=8)()
    settings = SETTINGS | OWN.get(name, {})
    return Run(
        algorithm=made, model="tiny_countdown", data=list(countdown(split="train", rows=1024)), reward=graded,
        prompts=16, max_new_tokens=12, run={"folder": str(folder)}, tracker=(), device="cpu", quiet=True, **settings,
    )  # fmt: skip


@pytest.fixture(scope="module")
def problems():
    return countdown(split="heldout", rows=PROBLEMS)


@pytest.fixture(scope="module")
def before(problems, tmp_path_factory):
    """Success of the model as it comes; one for all, as all start there."""
    torch.set_num_threads(1)
    return begin("grpo", tmp_path_factory.mktemp("before")).evaluate(problems)["success"]


def rises(before, after, count):
    """The z of two shares of as many: above 1.645 the second is larger, at 5 % one-sided."""
    both = (before + after) / 2
    return (after - before) / math.sqrt(2 * both * (1 - both) / count)


@pytest.mark.parametrize("name", NAMED)
def test_it_raises_success_on_problems_that_it_has_not_seen(name, before, problems, tmp_path, capsys):
    start = time.process_time()
    after = begin(name, tmp_path).train().evaluate(problems)["success"]
    spent = time.process_time() - start
    z = rises(before, after, PROBLEMS)
    with capsys.disabled():
        print(f"\n{name}: success {before:.3f} -> {after:.3f} (z = {z:.1f}) in {spent:.1f} CPU seconds")
    assert z > 1.645
    assert spent < CPU_SECONDS
