"""Faults that can be repeated: which process is killed, in which step, after which phase, and how long after it."""

import collections
import json
import random
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rlcore import checkpoint as checkpoints
from tests.chaos.nursery import FREE, SETTINGS
from tests.run import small

WITHIN = {"prompts": 0.06, "begin": 0.05, "saved": 0.03, "step": 0.03}
"""Seconds after the end of a phase within which the process is killed; 0.02 for others."""


@dataclass(frozen=True)
class Fault:
    """SIGKILL of one process of a run.

    process: "driver", or the role whose process it is.
    step: from 1.
    phase: a node of the graph that has just finished, or "begin" (before the first step), "step" or "saved".
    seed: of the time that passes between the end of the phase and the kill, uniform over `within` seconds.
    """

    setting: str
    process: str
    step: int
    phase: str
    seed: int

    @property
    def within(self) -> float:
        return WITHIN.get(self.phase, 0.02)

    def __str__(self):
        return f"{self.setting}:{self.process}:{self.step}:{self.phase}:{self.seed}"

    @classmethod
    def parse(cls, text):
        setting, process, step, phase, seed = text.split(":")
        return cls(setting, process, int(step), phase, int(seed))


PHASES = ("begin", "prompts", "rollout", "reward", "advantage", "update", "sync_sampler", "step", "saved")


def drawn(seed):
    """A fault, drawn from a seed: most of them while groups are in flight."""
    draw = random.Random(seed)
    setting = draw.choice(list(SETTINGS))
    settings = SETTINGS[setting][1]
    process = draw.choice(["driver", *(role for role in settings.get("roles", {}))])
    phase = draw.choice(PHASES + ("prompts",) * 4)
    step = 1 if phase == "begin" else draw.randint(1, settings["steps"])
    return Fault(setting, process, step, phase, seed)


class Nursery:
    """Runs in forks of a process that has imported everything; see `nursery`."""

    def __init__(self, process, folder):
        self.process, self.folder = process, folder
        self.model = small.save_model(folder / "tiny")
        small.save_data(folder / "data.jsonl")
        self.wholes = {}

    def attempt(self, where, setting, **kills):
        """How a new run, or what is left of one, ended."""
        asked = {"model": str(self.model), "where": str(where), "setting": setting, **kills}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def whole(self, setting):
        """The folder of the run that nobody touched."""
        if setting not in self.wholes:
            where = self.folder / f"whole {setting}"
            ended = self.attempt(where, setting)
            assert ended["exit"] == 0, ended
            assert not ended["left"], ended
            self.wholes[setting] = where / "run"
        return self.wholes[setting]

    def strike(self, fault):
        """Let a run be struck, and go on until it ends; return how it ended when it was struck."""
        where = self.folder / str(fault).replace("/", "_")
        struck = self.attempt(where, fault.setting, fault={**asdict(fault), "within": fault.within})
        # A moment after the end of the run strikes nothing.
        if struck["exit"]:
            if fault.process == "driver":
                assert struck["exit"] == -9, struck
            else:
                assert struck["exit"] == 1, struck
                assert struck["error"].startswith(f"RoleError: role {fault.process!r} (process "), struck
        assert not struck["left"], struck
        # A save that was struck leaves whole checkpoints, and what the next save tidies away.
        for path in _named_as_whole(where / "run" / "checkpoints"):
            assert checkpoints.fault(path) is None, (path, checkpoints.fault(path))
        ended = self.attempt(where, fault.setting)
        assert ended["exit"] == 0, ended
        assert not ended["left"], ended
        assert (where / "run" / "summary.json").exists(), ended
        self.compare(fault.setting, where / "run")
        return struck

    def compare(self, setting, run):
        """No group is lost, none is trained twice, the ledger closes; and most runs equal the one nobody touched."""
        whole = self.whole(setting)
        steps = SETTINGS[setting][1]["steps"]
        groups = json.loads((run / "summary.json").read_text())["groups"]
        assert groups["drawn"] == groups["trained"] + sum(groups["dropped"].values()) + groups["waiting"], groups
        rows = small.read(run / "rollouts.jsonl")
        size = SETTINGS[setting][0]().group_size
        sessions = collections.Counter(
            (row["step"], row["group"]) for row in {_session(row): row for row in rows}.values()
        )
        assert len({group for _, group in sessions}) == len(sessions) == groups["trained"] == 2 * steps, groups
        assert set(sessions.values()) == {size}, sessions
        assert len({json.dumps(row, sort_keys=True) for row in rows}) == len(rows), "a row was written twice"
        assert [row["step"] for row in small.metrics(run)] == list(range(1, steps + 1))
        if setting not in FREE:
            small.assert_equal_runs(run, whole)
            assert groups == json.loads((whole / "summary.json").read_text())["groups"]


def _named_as_whole(folder):
    """Checkpoints but for those that were on their way out: a kill in the middle of a removal leaves part of one."""
    return [path for path in checkpoints.candidates(folder) if ".old-" not in path.name]


def _session(row):
    return row["step"], row["group"], row["session"]


@contextmanager
def nursery(folder):
    """A process that forks runs."""
    command = [sys.executable, "-m", "tests.chaos.nursery"]
    root, pipe = Path(__file__).parents[2], subprocess.PIPE
    with subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield Nursery(process, folder)
        process.stdin.close()
