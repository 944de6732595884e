"""Runs whose roles live in processes of their own, and runs whose rollouts go ahead of the update."""

import gc
import math
import os
import signal

import pytest
import torch

from rlcore.errors import ConfigError, DataError
from rlcore.execute.process import ProcessHandle, RoleError
from rlcore.metrics import is_measured
from rlcore.protocols import Episode, Tracker
from rlcore.services import environment_name
from rlcore_algorithms import ppo
from tests.run import small


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small.save_model(tmp_path_factory.mktemp("model") / "tiny")


def numbers(run):
    return [{name: value for name, value in row.items() if not is_measured(name)} for row in run.history]


def test_sampler_and_trainer_in_processes_of_their_own_give_the_same_numbers(model, tmp_path):
    here = small.make(model, tmp_path, name="here").train()
    roles = {"sampler": {"execution": "process"}, "trainer": {"execution": "process"}}
    apart = small.make(model, tmp_path, name="apart", roles=roles).train()
    assert numbers(apart) == numbers(here)
    assert (apart.folder / "model" / "model.safetensors").read_bytes() == (
        here.folder / "model" / "model.safetensors"
    ).read_bytes()


def test_the_state_of_a_trainer_in_another_process_does_not_travel(model, tmp_path):
    run = small.make(model, tmp_path, steps=1, roles={"trainer": {"execution": "process"}})
    trainer = run.load().trainers["trainer"]
    received, answered = [], trainer.handle._answered
    trainer.handle._answered = lambda answers: (received.extend(answers), answered(answers))
    run.load().writers()["trainer"](folder := small.empty(tmp_path / "role"))
    assert [value for _, _, value in received] == [None]
    assert {path.name for path in folder.iterdir()} == {"model.pt", "optimizer.pt", "value_head.json", "version.json"}
    run.load().close()


@pytest.mark.slow
def test_a_run_that_is_done_can_be_evaluated_and_leaves_no_process(model, tmp_path):
    run = small.make(model, tmp_path, steps=1, roles={"sampler": {"execution": "process"}}).train()
    process = run.load().first.rollout.sampler.handle.process
    assert run.evaluate(small.ROWS[:2])["samples"] == 2
    del run
    gc.collect()
    assert process.wait(20) is not None


@pytest.mark.slow
def test_all_roles_in_processes_of_their_own_give_the_same_numbers(model, tmp_path):
    algorithm = ppo(group_size=2)
    here = small.make(model, tmp_path, name="here", algorithm=algorithm).train()
    apart = small.make(model, tmp_path, name="apart", algorithm=algorithm, execution="process").train()
    assert numbers(apart) == numbers(here)


def test_a_run_whose_rollouts_go_ahead_is_repeatable_and_accounts_for_every_group(model, tmp_path):
    how = {"max_weight_age": 1, "execution": {"deterministic": True}, "steps": 4}
    first = small.make(model, tmp_path, name="first", **how).train()
    second = small.make(model, tmp_path, name="second", **how).train()
    assert numbers(first) == numbers(second)
    assert [row["rollout/age_max"] for row in first.history] == [0, 1, 1, 1]
    assert first.summary["groups"] == {"drawn": 8, "trained": 8, "dropped": {}, "waiting": 0}


@pytest.mark.slow
def test_a_run_ahead_is_the_same_over_processes(model, tmp_path):
    how = {"max_weight_age": 1, "execution": {"deterministic": True}, "steps": 3}
    here = small.make(model, tmp_path, name="here", **how).train()
    roles = {role: {"execution": "process"} for role in ("sampler", "trainer")}
    apart = small.make(model, tmp_path, name="apart", roles=roles, **how).train()
    assert numbers(apart) == numbers(here)
    assert [row["rollout/age_max"] for row in apart.history] == [0, 1, 1]


def test_a_check_leaves_no_process(model, tmp_path, monkeypatch):
    started = []
    begin = ProcessHandle.__init__

    def remembered(self, *arguments, **options):
        begin(self, *arguments, **options)
        started.append(self.process)

    monkeypatch.setattr(ProcessHandle, "__init__", remembered)
    small.make(model, tmp_path, execution="process").check()
    assert started
    assert all(process.wait(20) is not None for process in started)


@pytest.mark.parametrize("deadline", [0, -1, math.nan])
def test_a_deadline_that_no_call_could_keep_is_refused(model, tmp_path, deadline):
    with pytest.raises(ConfigError, match="deadline"):
        small.make(model, tmp_path, execution={"deadline": deadline}).check()


class Picky:
    """Refuses a row without a number."""

    def __call__(self, completion, target):
        return 0.0

    def check_row(self, data):
        if not data["target"].isdigit():
            raise ValueError("is no number")


@pytest.mark.slow
def test_rows_are_checked_in_another_process_a_thousand_in_a_message(model, tmp_path, monkeypatch):
    sent, write = [], ProcessHandle._write
    monkeypatch.setattr(ProcessHandle, "_write", lambda self, data: (sent.append(len(data)), write(self, data)))
    rows = [{"prompt": f"{n}=", "target": str(n)} for n in range(2500)]
    rows[2100]["target"] = "none"
    run = small.make(model, tmp_path, data=rows, reward=Picky, roles={"reward": {"execution": "process"}})
    with pytest.raises(DataError, match=r"row 2100 of 2500 \(from 0\), with the target 'none': .*is no number"):
        run.load()
    assert len(sent) < 8


def test_a_run_that_went_ahead_goes_on_where_it_was(model, tmp_path):
    how = {"max_weight_age": 2, "execution": {"deterministic": True}, "steps": 5, "save": {"every": 1, "keep": 9}}
    whole = small.make(model, tmp_path, name="whole", **how).train()
    cut = small.make(model, tmp_path, name="cut", **{**how, "tracker": (lambda: StopAfter(2),)})
    with pytest.raises(KeyboardInterrupt):
        cut.train()
    resumed = small.make(model, tmp_path, name="cut", **{**how, "resume": str(tmp_path / "cut")}).train()
    assert numbers(resumed) == numbers(whole)
    assert resumed.summary["groups"] == whole.summary["groups"]


def test_a_role_that_is_killed_stops_the_run_by_name_and_resume_goes_on(model, tmp_path):
    how = {"steps": 3, "save": {"every": 1}, "roles": {"sampler": {"execution": "process"}}}
    whole = small.make(model, tmp_path, name="whole").train()
    killed = small.make(model, tmp_path, name="killed", **how, tracker=(lambda: KillSampler(lambda: killed),))
    with pytest.raises(RoleError, match=r"role 'sampler' \(process \d+\) died of SIGKILL while it did: "):
        killed.train()
    resumed = small.make(model, tmp_path, **{**how, "resume": str(tmp_path / "killed")}).train()
    assert numbers(resumed) == numbers(whole)
    assert resumed.summary["groups"] == {"drawn": 6, "trained": 6, "dropped": {}, "waiting": 0}


class StopAfter(Tracker):
    """Interrupts the run after some steps."""

    immediate = True

    def __init__(self, steps):
        self.steps = steps

    def log(self, step, metrics):
        if step == self.steps:
            raise KeyboardInterrupt


class KillSampler(Tracker):
    """Kills the sampler's process after the first step."""

    immediate = True

    def __init__(self, run):
        self.run = run

    def log(self, step, metrics):
        if step == 1:
            process = self.run().load().first.rollout.sampler.handle.process
            os.kill(process.pid, signal.SIGKILL)
            process.wait()


class Odd(Exception):
    """Cannot be made again from what it says."""

    def __init__(self, first, second):
        super().__init__(first)


class Moody(Episode):
    """Fails for some prompts by an error that cannot travel."""

    def __init__(self, row):
        self.row = row

    async def begin(self):
        if self.row["prompt"].startswith("0"):
            raise Odd(1, 2)
        return self.row["prompt"]

    async def step(self, turn):
        return None

    async def close(self):
        return None


class Moods:
    """An environment of such episodes."""

    turns = 1

    def __call__(self, row, *, seed):
        return Moody(row)


@pytest.mark.slow
def test_an_error_that_cannot_travel_ends_its_own_episode_alone(model, tmp_path):
    roles = {"environment": {"execution": "process"}}
    run = small.make(model, tmp_path, environment=Moods, roles=roles, steps=2, prompts=6).train()
    assert sum(row["rows/unscored"] for row in run.history) > 0
    assert sum(row["rows/trained"] for row in run.history) > 0


def test_a_device_that_a_role_cannot_have_is_said(model, tmp_path):
    with pytest.raises(ConfigError, match=r"roles.sampler.device=cuda has no effect: in this process a sampler draws"):
        small.make(model, tmp_path, roles={"sampler": {"device": "cuda"}})
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="device 'cuda' is not on this machine"):
            small.make(model, tmp_path, roles={"trainer": {"device": "cuda"}}).load()


@pytest.mark.slow
def test_a_role_that_is_gone_neither_hides_the_cause_nor_keeps_others_alive(model, tmp_path, caplog):
    roles = {role: {"execution": "process"} for role in ("reward", "trainer")}
    run = small.make(model, tmp_path, roles=roles, reward=small.digits)
    reward, trainer = run.load().first.grader.manager.handle.process, run.load().trainers["trainer"].handle.process
    os.kill(reward.pid, signal.SIGKILL)
    reward.wait()
    with pytest.raises(RoleError, match=r"role 'reward' .* died of SIGKILL while it did: score"):
        run.train()
    assert trainer.wait(20) is not None
    assert "RemoteManager did not end well" in caplog.text


@pytest.mark.slow
def test_an_environment_in_another_process_is_called_by_its_own_name(model, tmp_path, caplog):
    run = small.make(model, tmp_path, environment=Moods, roles={"environment": {"execution": "process"}}, steps=1)
    assert environment_name(run.load().first.rollout.environment) == "Moods"
    run.load().close()
