"""Every named algorithm trains a tiny random model for a few steps: finite losses, changed weights, its metrics."""

import math
import time

import pytest
import torch
from safetensors.torch import load_file

from rlcore import Algorithm, OfflineAlgorithm, bind, get, names
from tests.run import small

MADE = {name: get("algorithm", name)() for name in names("algorithm") if "/" not in name}
NAMED = [name for name, algorithm in MADE.items() if isinstance(algorithm, Algorithm)]
OFFLINE = [name for name, algorithm in MADE.items() if isinstance(algorithm, OfflineAlgorithm)]
"""Presets are settings of the same parts; they have tests of their own numbers."""


def letters(completion):
    """The share of letters, and of capitals among them as a part: about a half and a quarter under a random model."""
    found = [c for c in completion if c.isalpha()]
    share = len(found) / max(len(completion), 1)
    return {"score": share, "letters": share, "capitals": sum(c.isupper() for c in found) / max(len(completion), 1)}


letters.bounded = True  # no worker process for each of these runs


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small.save_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module", autouse=True)
def budget():
    """All of them together: at most a minute of CPU."""
    begin = time.process_time()
    yield
    assert time.process_time() - begin < 60


@pytest.mark.parametrize("name", OFFLINE)
def test_one_on_rows_of_the_data_trains_a_few_steps(model, tmp_path, name):
    rows = [
        {"prompt": f"{n}=", "completion": "ab" * (n % 3 + 1), "chosen": str(n), "rejected": "no" * n, "label": n % 2}
        for n in range(1, 9)
    ]
    run = small.make(
        model, tmp_path, algorithm=get("algorithm", name)(), data=rows, reward=None, steps=3, prompts=4, tracker=()
    ).train()
    before, after = (load_file(folder / "model.safetensors") for folder in (model, run.folder / "model"))
    changed = [key for key in before if not torch.equal(before[key].float(), after[key].float())]
    assert len(changed) > len(before) / 2, "an update reaches most of the weights"
    for values in run.history:
        assert all(math.isfinite(value) for value in values.values())
        assert values["update/gradient_norm"] > 0
        assert values["update/updates/applied"] == 1
        assert "score" not in values


@pytest.mark.parametrize("name", NAMED)
def test_it_trains_a_few_steps(model, tmp_path, name):
    algorithm = bind(get("algorithm", name), group_size=4)()
    run = small.make(
        model, tmp_path, algorithm=algorithm, reward=letters, steps=2, prompts=2, max_new_tokens=6, seed=1, tracker=(),
        limits={"max_rounds": 40},
    ).train()  # fmt: skip
    before, after = (load_file(folder / "model.safetensors") for folder in (model, run.folder / "model"))
    changed = [key for key in after if not torch.equal(before[key].float(), after[key].float())]
    assert len(changed) > len(after) / 2, "an update reaches most of the weights"
    assert len(run.history) == 2
    roles = run.graph.resolve().roles
    for values in run.history:
        assert all(math.isfinite(value) for value in values.values())
        assert {"score", "advantage", "update/loss", "update/gradient_norm", "update/updates/applied"} <= values.keys()
        assert values["update/gradient_norm"] > 0
        assert values.get("update/updates/skipped", 0) == 0
        assert ("critic_update/loss" in values) == ("critic" in roles)
        assert ("reward_model_update/loss" in values) == ("reward_model" in roles)


def test_a_frozen_reference_goes_with_any_schedule(model, tmp_path):
    algorithm = bind(get("algorithm", "grpo"), group_size=4, kl_coefficient=0.1)()
    linear = bind(get("schedule", "linear"), warmup_steps=1)
    run = small.make(model, tmp_path, algorithm=algorithm, reward=letters, steps=2, schedule=linear, tracker=()).train()
    assert run.load().trainers["reference"].frozen
    assert [row["update/learning_rate"] for row in run.history] == pytest.approx([1e-2, 5e-3])
