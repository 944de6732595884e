"""An 8,192-token row trains within 2 GB over the idle process: no [T, T] scores, no logits of a whole row."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, resource, sys, torch
torch.set_num_threads(1)
from rlcore.batch import Batch
from rlcore.protocols import Term, Update
from rlcore.train.trainer import TrainerConfig
from tests.tiny import make_tiny
from tests.train.cases import nll, row_mean, token_mean

tokens, vocabulary = 8192, int(sys.argv[2])
model = make_tiny(
    hidden_size=256, intermediate_size=768, num_hidden_layers=6, num_attention_heads=4, head_dim=64,
    max_position_embeddings=tokens, vocab_size=vocabulary,
)
trainer = TrainerConfig(precision=sys.argv[1], device="cpu", learning_rate=1e-5, measure=("entropy",)).start(model)
on = torch.arange(tokens) >= 16
rows = Batch({"length": [tokens], "tokens": torch.randint(4, 80, (tokens,)), "sampled": on, "mask": on})
idle = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
result = trainer.update(rows, Update((Term(nll, token_mean),)), seed=0)
# Not ru_maxrss: a child begins with its parent's, and pytest has grown by then.
peak = 1024 * next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"finite": result.finite, "over_idle": peak - idle}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the resident size from /proc")
@pytest.mark.parametrize(("precision", "vocabulary"), [("float32", 83), ("bfloat16", 83), ("float32", 32_000)])
def test_a_row_of_8192_tokens_trains_within_two_gigabytes(precision, vocabulary):
    root, arguments = Path(__file__).parents[2], [precision, str(vocabulary)]
    # With a large vocabulary malloc keeps freed pieces of logits for later (2.5 GB then count as resident): what is
    # measured is what is alive, so large blocks go back to the system at once.
    malloc = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"} if vocabulary > 1000 else {}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], cwd=root, env={**os.environ, **malloc}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["finite"]
    # 8,192 x 32,000 float32 logits alone would be 1 GB, and their backward pass three times that.
    assert found["over_idle"] < 2e9
