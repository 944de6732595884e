import hashlib
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import OrderedDict, defaultdict
from functools import partial

import numpy as np
import pytest
import torch

from rlcore.checkpoint import (
    MARKER,
    checkpoint_step,
    fault,
    load,
    load_state,
    load_trainer,
    newest,
    roles,
    save,
    save_trainer,
    write_state,
)
from rlcore.errors import CheckpointError, RunError


def state(step=1):
    return {"trainer": {"weight": torch.full((3,), float(step))}, "order": {"epoch": 0, "place": step}}


def folders(path):
    return sorted(entry.name for entry in path.iterdir())


def test_a_state_comes_back_bit_for_bit(tmp_path):
    bits = torch.tensor([0x7FC00001, -0x7F800000 + 2**31, 1, -(2**31)], dtype=torch.int32).view(
        torch.float32
    )  # NaN payload, inf, ...
    weight = torch.nn.Parameter(torch.randn(2, 3, dtype=torch.bfloat16))
    saved = {
        "model": OrderedDict(a=bits, tied=weight, head=weight),
        "optimizer": {
            "state": {0: {"step": torch.tensor(3.0)}},
            "param_groups": [{"betas": (0.9, 0.999), "params": [0]}],
        },
        "random": {
            "torch": torch.get_rng_state(),
            "numpy": np.random.PCG64(3).state,
            "python": random.Random(3).getstate(),
        },
        "plain": {
            "loss": 0.1,
            "small": -0.0,
            "none": None,
            "text": "é\ud800",
            "on": True,
            "big": 2**70,
            "list": [1, [2.5]],
        },
        "odd": {
            "nan": math.nan,
            "bytes": b"\x00",
            "set": {1, 2},
            "complex": 1j,
            "size": torch.Size([2]),
            "kind": torch.bfloat16,
        },
        "numpy": {"float": np.float64(0.1), "int": np.int64(3)},
        "counts": defaultdict(int, {4: 2}),
    }
    loaded = load(save(tmp_path, 7, saved))
    assert loaded.keys() == saved.keys()
    assert loaded["model"]["a"].view(torch.int32).equal(bits.view(torch.int32))
    assert loaded["model"]["tied"].view(torch.int16).equal(weight.detach().view(torch.int16))
    assert loaded["model"]["tied"].data_ptr() == loaded["model"]["head"].data_ptr()
    assert loaded["optimizer"] == saved["optimizer"]
    assert loaded["random"]["torch"].equal(saved["random"]["torch"])
    assert loaded["random"]["numpy"] == saved["random"]["numpy"]
    assert loaded["random"]["python"] == saved["random"]["python"]
    assert loaded["plain"] == saved["plain"]
    assert math.copysign(1, loaded["plain"]["small"]) == -1
    assert math.isnan(loaded["odd"].pop("nan"))
    assert loaded["odd"] == {key: value for key, value in saved["odd"].items() if key != "nan"}
    assert {name: type(value) for name, value in loaded["numpy"].items()} == {"float": float, "int": int}
    assert loaded["counts"] == {4: 2}


def test_plain_values_can_be_read_without_python(tmp_path):
    path = save(tmp_path, 1, state())
    assert json.loads((path / "order.json").read_text()) == {"epoch": 0, "place": 1}
    assert folders(path) == [MARKER, "order.json", "trainer.pt"]


class Custom:
    pass


@pytest.mark.parametrize("value", [Custom(), len, np.zeros(2), [{"deep": (Custom(),)}]])
def test_what_could_not_be_read_back_safely_is_refused_before_anything_is_written(tmp_path, value):
    with pytest.raises(CheckpointError, match=r"estimator\['inner'\].* is a .*, which a checkpoint cannot hold"):
        save(tmp_path / "c", 1, {"estimator": {"inner": value}})
    assert not (tmp_path / "c").exists()


def test_a_role_writes_its_own_folder(tmp_path):
    path = save(tmp_path, 1, state(), writers={"critic": critic})
    assert roles(path) == ("critic",)
    assert load(path).keys() == state().keys()
    found = load_state(path / "critic")
    assert found["version"] == 3
    assert torch.equal(found["head"], torch.zeros(2))


def test_what_was_laid_beside_the_entries_is_none(tmp_path):
    path = save(tmp_path, 1, state(), writers={"critic": critic})
    for folder in (path, path / "critic"):
        (folder / "stray.json").write_text("{}")
    (path / "reference").mkdir()
    assert fault(path) is None
    assert load(path).keys() == state().keys()
    assert load_state(path / "critic").keys() == {"head", "version"}
    assert roles(path) == ("critic",)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(28, "No space left"), CheckpointError),
        (RuntimeError("disk"), CheckpointError),
        (ValueError("of its own"), CheckpointError),
        (RunError("gone"), RunError),
        (KeyboardInterrupt("gone"), KeyboardInterrupt),
    ],
)
def test_a_role_that_cannot_write_leaves_the_checkpoint_before(tmp_path, error, raised):
    save(tmp_path, 1, state(), writers={"critic": critic})

    def half(folder):
        (folder / "head.pt").write_bytes(b"a half")
        raise error

    with pytest.raises(raised, match=r"step 2 could not be written|gone") as caught:
        save(tmp_path, 2, state(2), writers={"trainer": critic, "critic": half})
    assert raised is not CheckpointError or isinstance(error, OSError) or "role 'critic' could not" in str(caught.value)
    assert folders(tmp_path) == ["step_1"]
    assert newest(tmp_path) == tmp_path / "step_1"


class Sharded:
    """A trainer that saves itself in a layout of its own: a folder of shards, none of them an entry of ours."""

    def __init__(self, value):
        self.value = value

    def save_state(self, folder):
        (folder / "shards" / "0").mkdir(parents=True)
        (folder / "shards" / "0" / "part.bin").write_bytes(bytes([self.value]))

    def load_state(self, folder):
        self.value = (folder / "shards" / "0" / "part.bin").read_bytes()[0]


def test_a_trainer_may_save_itself_in_a_layout_of_its_own(tmp_path):
    path = save(tmp_path, 1, state(), writers={"trainer": partial(save_trainer, Sharded(7))})
    assert roles(path) == ("trainer",)
    assert load(path).keys() == state().keys()
    load_trainer(found := Sharded(0), path / "trainer")
    assert found.value == 7
    (path / "trainer" / "shards" / "0" / "part.bin").write_bytes(b"\0")
    assert "trainer/shards/0/part.bin was altered" in fault(path)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "complete"])
def test_an_entry_cannot_leave_the_folder_or_pose_as_the_marker(tmp_path, name):
    with pytest.raises(CheckpointError, match="cannot name an entry"):
        save(tmp_path, 1, {name: 1})
    with pytest.raises(CheckpointError, match="cannot name an entry"):
        save(tmp_path, 1, {}, writers={name: critic})


def test_a_pickle_in_a_checkpoint_is_not_run(tmp_path):
    path = save(tmp_path, 1, state())
    torch.save({"evil": print}, path / "trainer.pt")
    marker = json.loads((path / MARKER).read_text())
    data = (path / "trainer.pt").read_bytes()
    marker["files"]["trainer.pt"] = [len(data), hashlib.sha256(data).hexdigest()]
    (path / MARKER).write_text(json.dumps(marker))
    with pytest.raises(Exception, match=r"[Ww]eights.only|Unsupported"):
        load(path)


def test_newest_is_by_number_and_none_where_there_is_none(tmp_path):
    assert newest(tmp_path / "nowhere") is None
    for step in (9, 10, 2):
        save(tmp_path, step, state(step))
    assert newest(tmp_path) == tmp_path / "step_10"
    assert checkpoint_step(newest(tmp_path)) == 10
    with pytest.raises(CheckpointError, match="not step_N"):
        checkpoint_step(tmp_path / "best")


def cut(path):
    (path / "trainer.pt").write_bytes((path / "trainer.pt").read_bytes()[:-10])


def flip(path, name="trainer.pt"):
    data = bytearray((path / name).read_bytes())
    data[len(data) // 2] ^= 1
    (path / name).write_bytes(data)


DAMAGE = {
    "bytes instead of": cut,
    "was altered": flip,
    "order.json is missing": lambda path: (path / "order.json").unlink(),
    "marker complete.json is missing or unreadable": lambda path: (path / MARKER).unlink(),
    "unreadable": lambda path: (path / MARKER).write_text('{"format": 1'),
    "its format is 1": lambda path: (path / MARKER).write_text('{"format": 1, "step": 2, "files": {}}'),
    "critic/head.pt is missing": lambda path: (path / "critic" / "head.pt").unlink(),
    "critic/head.pt was altered": lambda path: flip(path / "critic", "head.pt"),
}


def critic(folder):
    write_state(folder, {"head": torch.zeros(2), "version": 3})


@pytest.mark.parametrize("reason", DAMAGE)
def test_a_damaged_checkpoint_is_skipped_with_the_reason(tmp_path, caplog, reason):
    save(tmp_path, 1, state(1))
    DAMAGE[reason](save(tmp_path, 2, state(2), writers={"critic": critic}))
    assert newest(tmp_path) == tmp_path / "step_1"
    assert reason in caplog.text
    with pytest.raises(CheckpointError, match=reason):
        load(tmp_path / "step_2")
    assert load(save(tmp_path, 2, state(2)))["order"]["place"] == 2


def test_b88_retention_holds_after_a_restart_and_touches_nothing_foreign(tmp_path):
    save(tmp_path, 1, state(1), keep=1)
    for foreign in ("best", "step_0_backup", "step_x", "step_0"):
        (tmp_path / foreign).mkdir()
    (tmp_path / "step_0.tmp").write_text("a file")
    # A new process knows no list of what it has saved: `save` has no memory, so this call is the restart.
    save(tmp_path, 2, state(2), keep=1)
    assert folders(tmp_path) == ["best", "step_0", "step_0.tmp", "step_0_backup", "step_2", "step_x"]


def test_the_last_n_are_kept_and_later_ones_too(tmp_path):
    for step in range(1, 6):
        save(tmp_path, step, state(step), keep=2)
    assert folders(tmp_path) == ["step_4", "step_5"]
    save(tmp_path, 3, state(3), keep=1)
    assert folders(tmp_path) == ["step_3", "step_4", "step_5"]


def test_a_failed_save_loses_nothing(tmp_path, monkeypatch):
    save(tmp_path, 1, state(1), keep=1)
    monkeypatch.setattr(torch, "save", lambda *_: (_ for _ in ()).throw(OSError("No space left on device")))
    with pytest.raises(CheckpointError, match=r"step 2 could not be written .* No space left"):
        save(tmp_path, 2, state(2), keep=1)
    assert folders(tmp_path) == ["step_1"]


@pytest.mark.parametrize("arguments", [{"step": -1}, {"step": 1, "keep": 0}])
def test_bad_numbers_are_refused(tmp_path, arguments):
    with pytest.raises(CheckpointError, match="step >= 0 and keep >= 1"):
        save(tmp_path, state={}, **arguments)


def test_a_kill_between_the_two_renames_of_a_replacement_loses_nothing(tmp_path):
    (save(tmp_path, 1, state(1))).rename(tmp_path / "step_1.old-ab12")
    (tmp_path / "step_1.tmp-ab12").mkdir()
    assert newest(tmp_path) == tmp_path / "step_1.old-ab12"
    save(tmp_path, 1, state(5))
    assert folders(tmp_path) == ["step_1"]
    assert load(newest(tmp_path))["order"]["place"] == 5


WRITER = """
import sys, torch
from rlcore.checkpoint import newest, save, checkpoint_step, write_state
found = newest(sys.argv[1])
step = checkpoint_step(found) if found else 0
print("ready", flush=True)
while True:
    step += 1
    weight = torch.full((200_000,), float(step))
    role = lambda folder: write_state(folder, {"weight": weight})
    save(sys.argv[1], step, {"order": {"place": step}}, writers={"trainer": role, "critic": role}, keep=2)
"""


def killed_once(folder, after_seconds):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, env=environment)
    process.stdout.readline()
    time.sleep(after_seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()


def check_after_kills(folder, moments):
    last = 0
    for seconds in moments:
        killed_once(folder, seconds)
        found = newest(folder)
        if found is None:
            continue
        step = checkpoint_step(found)
        assert step >= last
        assert all(load_state(found / role)["weight"].eq(step).all() for role in ("trainer", "critic"))
        assert load(found)["order"]["place"] == step
        assert sum(1 for path in folder.iterdir() if fault(path) is None) <= 3
        last = step
    assert last > 0


def test_a_killed_writer_leaves_a_whole_checkpoint(tmp_path):
    check_after_kills(tmp_path, [random.Random(0).uniform(0, 0.3) for _ in range(2)])


@pytest.mark.chaos
def test_thirty_killed_writers_leave_whole_checkpoints(tmp_path):
    draw = random.Random(time.time_ns())
    check_after_kills(tmp_path, [draw.uniform(0, 0.2) for _ in range(30)])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda marker: marker.update(files=[]), "marker .* unreadable"),
        (lambda marker: marker.update(files={}), "lists no file"),
        (lambda marker: marker.update(step=7), "is that of step 7"),
    ],
)
def test_a_marker_that_says_something_else_is_no_whole_checkpoint(tmp_path, change, says):
    older, path = save(tmp_path, 1, state()), save(tmp_path, 2, state(2))
    marker = json.loads((path / MARKER).read_text())
    change(marker)
    (path / MARKER).write_text(json.dumps(marker))
    assert re.search(says, fault(path))
    assert newest(tmp_path) == older
