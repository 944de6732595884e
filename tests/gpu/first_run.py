"""Trains the default run on a GPU and says what it saw: `python tests/gpu/first_run.py`, under five minutes.

Not collected by pytest: it is the first thing to run on a machine with a GPU. Exits 1 if there is none, if the run did
not use it, or if the model did not learn.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

import torch


def main() -> int:
    if not torch.cuda.is_available() and not torch.backends.mps.is_available():
        print("no GPU: torch sees neither CUDA nor MPS", file=sys.stderr)
        return 1
    from rlcore import Run
    from rlcore.config import load

    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run = Run.of(load(["device=auto", f"run.folder={folder}"]))
        loaded = run.load()
        device = loaded.model.device
        run.train()
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    memory = torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else float("nan")
    gap = [abs(row["policy/kl"]) for row in run.history if "policy/kl" in row]
    said = {
        "device": kind,
        "torch": torch.__version__,
        "seconds": round(time.perf_counter() - begin, 1),
        "success_before": run.summary["success_before"],
        "success_after": run.summary["success_after"],
        "rollout_tokens_per_second": run.history[-1].get("speed/rollout_tokens_per_second"),
        "tokens_per_second": run.history[-1].get("speed/tokens_per_second"),
        "largest_sampler_trainer_gap_nats": max(gap, default=None),
        "peak_memory_mib": round(memory, 1),
    }
    print(json.dumps(said))
    learnt = run.summary["success_after"] - run.summary["success_before"]
    if device.type == "cpu" or learnt < 0.15:
        print(f"device {device}, success rose by {learnt:.3f}: expected a GPU and at least 0.15", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
