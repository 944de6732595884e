"""Runs that can be killed: a process that imports everything once and forks a run for every line that it reads.

A fork costs a twentieth of a new interpreter. Nothing is trained here but in forks, so no thread of torch is lost.
Each line on standard input is JSON: `model`, `where`, `setting` (a key of `SETTINGS`), and what kills the run, if
anything: `kill_after` (seconds) or `fault` (see `faults.Fault`). Answered by one line: `exit` (0, or minus the
signal), `seconds`, `error` (what the run raised), `left` (processes that it started and that did not go away).
Started as `python -m tests.chaos.nursery`.
"""

import json
import os
import random
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

from rlcore import hookimpl
from rlcore.protocols import TurnEnvironment
from rlcore.registry import registry
from rlcore_algorithms import dapo, grpo, ppo
from rlcore_algorithms.controllers.adaptive_kl import adaptive_kl
from tests.run import small

torch.set_num_threads(1)
# Its thread could hold a lock while a run is forked.
tqdm.tqdm.monitor_interval = 0

SHORT = {"steps": 3, "save": {"every": 1, "keep": 2}}
AHEAD = {**SHORT, "max_weight_age": 1, "max_new_tokens": 16, "steps": 4}
PROCESS = {"execution": "process"}


class Counting(TurnEnvironment):
    """Asks three times in all."""

    def begin(self, row):
        return row["prompt"]

    def reply(self, row, turns):
        return f" {len(turns)}:" if len(turns) < 3 else None


TURNS = {"environment": Counting, "sampling": {"stop": list("02468")}, "max_new_tokens": 12}
# Each has an algorithm and settings; runs of those that are not in `FREE` are equal bit for bit.
SETTINGS = {
    # Critic, value head, reference, a coefficient that is carried from step to step, several updates a step.
    "ppo": (
        lambda: replace(ppo(group_size=2, minibatches=2, kl_in_reward_coefficient=0.1), controller=adaptive_kl),
        SHORT,
    ),
    # Rounds of refill.
    "dapo": (lambda: dapo(group_size=3), SHORT),
    "grpo": (lambda: grpo(group_size=2), SHORT),
    # Many turns, and rollouts of the next step beside the update.
    "turns": (lambda: grpo(group_size=2), {**SHORT, **TURNS}),
    "ahead": (lambda: grpo(group_size=2), {**AHEAD, "execution": {"deterministic": True}}),
    "refilled ahead": (lambda: dapo(group_size=3), {**AHEAD, "execution": {"deterministic": True}}),
    "free": (lambda: grpo(group_size=2), {**AHEAD, **TURNS}),
    # Roles in processes of their own.
    "sampler apart": (lambda: grpo(group_size=2), {**SHORT, **TURNS, "roles": {"sampler": PROCESS}}),
    "sampler apart, ahead": (
        lambda: grpo(group_size=2),
        {**AHEAD, "execution": {"deterministic": True}, "roles": {"sampler": PROCESS}},
    ),
    "trainer apart": (lambda: grpo(group_size=2), {**SHORT, "roles": {"sampler": PROCESS, "trainer": PROCESS}}),
}
FREE = ("free",)


def begin(model, where, setting):
    """The run of a folder: a new one, or what was left of it."""
    data = str(Path(model).with_name("data.jsonl"))
    algorithm, own = SETTINGS[setting]
    settings = {
        "limits": {"max_rounds": 50},
        "data": {"name": "file", "path": data, "split": "all"},
        "eval": {"data": data, "every": 2, "limit": 4},
        **own,
    }
    if (Path(where) / "run" / "config.yaml").exists():
        settings["resume"] = str(Path(where) / "run")
    return small.make(model, where, algorithm=algorithm(), **settings)


class Striking:
    """Kills a process of the run at a moment that a fault says: watches the run as a plugin does."""

    def __init__(self, run, fault):
        self.run, self.fault = run, fault
        self.seen = False

    @hookimpl
    def run_started(self):
        self.at(1, "begin")

    @hookimpl
    def node_finished(self, step, node):
        self.at(step + 1, node)

    @hookimpl
    def step_finished(self, step):
        self.at(step, "step")

    @hookimpl
    def checkpoint_saved(self, step):
        self.at(step, "saved")

    def roles(self):
        loaded = self.run.load()
        services = {"sampler": loaded.first.rollout.sampler, **loaded.trainers}
        return {name: s.handle.process.pid for name, s in services.items() if hasattr(s, "handle")}

    def at(self, step, phase):
        if self.fault is None or self.seen or (step, phase) != (self.fault["step"], self.fault["phase"]):
            return
        self.seen = True
        process = self.fault["process"]
        pid = os.getpid() if process == "driver" else self.roles()[process]
        delay = random.Random(self.fault["seed"]).uniform(0, self.fault["within"])
        threading.Timer(delay, os.kill, (pid, signal.SIGKILL)).start()


def child(model, where, setting, fault):
    """Train in a fork, and leave without anything that the parent would do at its end."""
    # What it starts is known by its session, whatever it is and whoever lives on.
    os.setsid()
    try:
        run = begin(model, where, setting)
        registry().manager.register(Striking(run, fault))
        run.train()
    except BaseException as error:
        traceback.print_exc()
        Path(where, "error").write_text(f"{type(error).__name__}: {error}")
        os._exit(1)
    os._exit(0)


def attempt(model, where, setting, kill_after=None, fault=None):
    """Fork a run, kill it after so many seconds if it still runs; return how it ended and how long it took."""
    started = time.perf_counter()
    Path(where).mkdir(parents=True, exist_ok=True)
    Path(where, "error").unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        child(model, where, setting, fault)
    timer = None
    if kill_after is not None:
        timer = threading.Timer(kill_after, os.kill, (pid, signal.SIGKILL))
        timer.start()
    # A run that hangs when one of its processes dies must not hang whoever looks for that.
    hung = threading.Timer(HUNG, os.kill, (pid, signal.SIGABRT))
    hung.start()
    _, status = os.waitpid(pid, 0)
    hung.cancel()
    if timer is not None:
        timer.cancel()
        timer.join()
    error = Path(where, "error")
    return {
        "exit": os.waitstatus_to_exitcode(status),
        "seconds": time.perf_counter() - started,
        "error": error.read_text() if error.exists() else "",
        "left": left_over(pid),
    }


HUNG = 120.0
"""Seconds after which a run of a few steps hangs: it is aborted, and ended by signal 6."""


def left_over(session, patience=20.0):
    """The processes that a run started and that have not gone away, some seconds after its end."""
    deadline = time.monotonic() + patience
    while (living := of_session(session)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return living


def of_session(session):
    """The living processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, own = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue  # it has just ended
        if int(own) == session and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def warm_up():
    """Import what a run imports only when it gets there, and call what is looked up at first use."""
    with tempfile.TemporaryDirectory() as folder:
        run = small.make(small.save_model(Path(folder) / "model"), folder, algorithm=SETTINGS["ppo"][0]())
        run.evaluate(small.ROWS[:2])
        run.load().trainers["trainer"].save_model(Path(folder) / "saved")


def main():
    warm_up()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(attempt(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
