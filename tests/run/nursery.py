"""Runs that can be killed: a process that imports everything once and forks a run for every line that it reads.

A fork costs a twentieth of a new interpreter. Nothing is trained here but in forks, so no thread of torch is lost.
Each line on standard input is JSON: `model`, `where`, `kill_after` (seconds, or null), `algorithm`. Answered by one
line: `exit` (0, or minus the signal), `seconds`. Started as `python -m tests.run.nursery`.
"""

import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import replace
from pathlib import Path

import torch
import tqdm

from rlcore_algorithms import dapo, grpo, ppo
from rlcore_algorithms.controllers.adaptive_kl import adaptive_kl
from tests.run import small

torch.set_num_threads(1)
# Its thread could hold a lock while a run is forked.
tqdm.tqdm.monitor_interval = 0

ALGORITHMS = {
    # Critic, value head, reference, a coefficient that is carried from step to step, several updates a step.
    "ppo": lambda: replace(ppo(group_size=2, minibatches=2, kl_in_reward_coefficient=0.1), controller=adaptive_kl),
    # Rounds of refill.
    "dapo": lambda: dapo(group_size=3),
    "grpo": lambda: grpo(group_size=2),
}


def begin(model, where, algorithm):
    """The run of a folder: a new one, or what was left of it."""
    data = str(Path(model).with_name("data.jsonl"))
    settings = {
        "steps": 3,
        "save": {"every": 1, "keep": 2},
        "limits": {"max_rounds": 50},
        "data": {"name": "file", "path": data, "split": "all"},
        "eval": {"data": data, "every": 2, "limit": 4},
    }
    if (Path(where) / "run" / "config.yaml").exists():
        settings["resume"] = str(Path(where) / "run")
    return small.make(model, where, algorithm=ALGORITHMS[algorithm](), **settings)


def child(model, where, algorithm):
    """Train in a fork, and leave without anything that the parent would do at its end."""
    try:
        begin(model, where, algorithm).train()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def attempt(model, where, algorithm, kill_after):
    """Fork a run, kill it after so many seconds if it still runs; return how it ended and how long it took."""
    started = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        child(model, where, algorithm)
    timer = None
    if kill_after is not None:
        timer = threading.Timer(kill_after, os.kill, (pid, signal.SIGKILL))
        timer.start()
    _, status = os.waitpid(pid, 0)
    if timer is not None:
        timer.cancel()
        timer.join()
    return {"exit": os.waitstatus_to_exitcode(status), "seconds": time.perf_counter() - started}


def warm_up():
    """Import what a run imports only when it gets there, and call what is looked up at first use."""
    with tempfile.TemporaryDirectory() as folder:
        run = small.make(small.save_model(Path(folder) / "model"), folder, algorithm=ALGORITHMS["ppo"]())
        run.evaluate(small.ROWS[:2])
        run.load().trainers["trainer"].save_model(Path(folder) / "saved")


def main():
    warm_up()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(attempt(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
