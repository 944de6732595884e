"""The smallest runs that go through everything: a random model of one layer, sums of two digits, a reward by digits."""

import json
import math
import os
import time

import torch

from rlcore import Run
from rlcore import checkpoint as checkpoints
from rlcore_algorithms import grpo
from tests.tiny import save_tiny

SIZES = dict(
    num_hidden_layers=1, hidden_size=16, intermediate_size=16, num_attention_heads=2, num_key_value_heads=1, head_dim=8
)
ROWS = [{"prompt": f"{a}+{b}=", "target": str(a + b)} for a in range(4) for b in range(3)]


def digits(completion, target):
    """The share of digits; far from all equal under a random model."""
    return sum(c.isdigit() for c in completion) / max(len(completion), 1)


digits.bounded = True  # no worker process for each of these runs


def save_model(folder, seed=0):
    return save_tiny(folder, seed=seed, **SIZES)


def save_data(path):
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def make(model, where, *, algorithm=None, name="run", data=ROWS, reward=digits, **settings):
    """A run that has not begun; `where` is the folder of runs."""
    chosen = {
        "steps": 3,
        "prompts": 2,
        "max_new_tokens": 4,
        "learning_rate": 1e-2,
        "tracker": ("jsonl",),
        "run": {"folder": str(where), "name": name},
        "device": "cpu",
        **settings,
    }
    for role in filter(None, os.environ.get("RLCORE_TEST_PROCESSES", "").split(",")):
        # The same runs over processes: roles that the test says nothing of live in processes of their own.
        chosen["roles"] = {role: {"execution": "process"}, **chosen.get("roles", {})}
    return Run(
        algorithm=algorithm or grpo(group_size=2), model=str(model), data=data, reward=reward, quiet=True, **chosen
    )


def read(path):
    """Rows of a file of strict JSON lines."""

    def refuse(word):
        raise AssertionError(f"{path} holds {word}, which is no JSON")

    # Only "\n" ends a row: splitlines would cut rows at U+2028 and its like.
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line, parse_constant=refuse) for line in lines if line]


def metrics(folder):
    """The rows of `metrics.jsonl` without what a clock made."""
    return [{k: v for k, v in row.items() if k != "measured"} for row in read(folder / "metrics.jsonl")]


def empty(folder):
    folder.mkdir()
    return folder


def state_of(path):
    """All that a checkpoint holds; what roles wrote under `trainers`."""
    return {
        **checkpoints.load(path),
        "trainers": {r: checkpoints.load_state(path / r) for r in checkpoints.roles(path)},
    }


def last_state(folder):
    return state_of(checkpoints.newest(folder / "checkpoints"))


def same(one, other, where="state"):
    """Fail with the place if two trees of tensors and plain values differ in any bit."""
    assert type(one) is type(other), where
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            same(one[key], other[key], f"{where}[{key!r}]")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            same(a, b, f"{where}[{i}]")
    elif isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype, where
        assert torch.equal(one, other), where
    else:
        assert one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other)), where


def unmeasured(state):
    """A checkpoint's state without the times in its history."""
    from rlcore.metrics import is_measured

    training = state["training"]
    history = [{k: v for k, v in row.items() if not is_measured(k)} for row in training["history"]]
    return {**state, "training": {**training, "history": history}}


def assert_equal_runs(one, other):
    """Metrics, rows, and every bit of weights, optimizer, data order and carried values."""
    assert metrics(one) == metrics(other)
    assert read(one / "rollouts.jsonl") == read(other / "rollouts.jsonl")
    evaluated = [
        read(run / "evaluations.jsonl") if (run / "evaluations.jsonl").exists() else [] for run in (one, other)
    ]
    assert evaluated[0] == evaluated[1]
    same(unmeasured(last_state(one)), unmeasured(last_state(other)))
    for file in sorted((one / "model").glob("*.safetensors")):
        assert file.read_bytes() == (other / "model" / file.name).read_bytes()


class Timed:
    def __enter__(self):
        self.begin = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.seconds = time.perf_counter() - self.begin
